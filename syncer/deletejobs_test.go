package syncer_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

func TestRunningJobHoldsTheDelete(t *testing.T) {
	for _, status := range []string{oscarsim.JobPending, oscarsim.JobRunning, oscarsim.JobSuspended} {
		t.Run(status, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				r.makeReady(p)
				job, err := r.sim.AddJob(p.name, status)
				if err != nil {
					t.Fatal(err)
				}
				r.want(p, record.IntentDelete)
				asked := r.sim.Calls()["logs"]
				r.eventually("the jobs were looked at twice", func() bool { return r.sim.Calls()["logs"] > asked+1 })
				r.equalCalls(p.name, "create")
				if err := r.sim.SetJobStatus(p.name, job, oscarsim.JobSucceeded); err != nil {
					t.Fatal(err)
				}
				r.await(p, record.PhaseDeleted)
			})
		})
	}
}

// TestJobIsCountedBeforeASuddenTombstone: the order to delete comes while a
// change is under way, for which no jobs were counted.
func TestJobIsCountedBeforeASuddenTombstone(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		gate, inner := newGate(), r.oscar("syncer")
		r.start(func(c *syncer.Config) {
			c.Resync = never
			c.OSCAR = &proxy{OSCAR: inner, get: func(ctx context.Context, name string) (*manager.Service, error) {
				gate.pass()
				return inner.Get(ctx, name)
			}}
		})
		p := newReplica("grayify")
		r.makeReady(p)
		job, err := r.sim.AddJob(p.name, oscarsim.JobRunning)
		if err != nil {
			t.Fatal(err)
		}
		gate.arm()
		p.generation, p.image = 2, "example.org/other"
		r.want(p, record.IntentApply)
		<-gate.reached
		r.want(p, record.IntentDelete)
		close(gate.opened)
		r.eventually("the jobs were looked at", func() bool { return r.sim.Calls()["logs"] > 0 })
		r.equalCalls(p.name, "create")
		if err := r.sim.SetJobStatus(p.name, job, oscarsim.JobFailed); err != nil {
			t.Fatal(err)
		}
		r.await(p, record.PhaseDeleted)
	})
}

func TestRunningJobIsCancelledWhenOrdered(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		if _, err := r.sim.AddJob(p.name, oscarsim.JobRunning); err != nil {
			t.Fatal(err)
		}
		asked := r.sim.Calls()[oscarsim.OpLogs]
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Jobs = "cancel" })
		r.await(p, record.PhaseDeleted)
		if n := r.sim.Calls()[oscarsim.OpLogs]; n != asked {
			t.Error("jobs were listed that are to end in any case")
		}
	})
}

// TestALongListOfJobsHoldsNoOtherServiceUp: the jobs of a service that is to be deleted
// take OSCAR minutes to list. Others are made and deleted meanwhile.
func TestALongListOfJobsHoldsNoOtherServiceUp(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		inner := r.oscar("syncer")
		reached, release := make(chan struct{}, 100), make(chan struct{})
		let := sync.OnceFunc(func() { close(release) })
		t.Cleanup(let)
		r.start(func(c *syncer.Config) {
			c.OSCAR = &proxy{OSCAR: inner, jobs: func(ctx context.Context, service, page string) (manager.JobPage, error) {
				reached <- struct{}{}
				select {
				case <-release:
				case <-ctx.Done():
					return manager.JobPage{}, &manager.APIError{Op: manager.OpJobs, Err: ctx.Err()}
				}
				return inner.Jobs(ctx, service, page)
			}}
		})
		p, other := newReplica("grayify"), newReplica("other")
		r.makeReady(p)
		r.want(p, record.IntentDelete)
		r.eventually("its jobs are listed", func() bool { return len(reached) > 0 })
		r.makeReady(other)
		r.want(other, record.IntentDelete, func(d *record.Desired) { d.Jobs = "cancel" })
		r.await(other, record.PhaseDeleted)
		r.equalCalls(p.name, "create")
		let()
		r.await(p, record.PhaseDeleted)
	})
}

// TestJobsThatCannotBeCountedAreTold: the deletion waits for them, and goes on when they can be.
func TestJobsThatCannotBeCountedAreTold(t *testing.T) {
	for name, cancelled := range map[string]bool{"until they can be": false, "until they are to be cancelled": true} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				r.makeReady(p)
				r.fault(oscarsim.OpLogs, oscarsim.Fault500, 0)
				r.want(p, record.IntentDelete)
				if o := r.await(p, record.PhaseFailed, because(record.ReasonDeleteFailed)); !strings.Contains(o.Message, "cannot be counted") || !strings.Contains(o.Message, "500") {
					t.Errorf("told as %q", o.Message)
				}
				asked := r.sim.Calls()[oscarsim.OpLogs]
				r.eventually("they are counted again", func() bool { return r.sim.Calls()[oscarsim.OpLogs] > asked })
				r.equalCalls(p.name, "create")
				if cancelled {
					r.want(p, record.IntentDelete, func(d *record.Desired) { d.Jobs = record.JobsCancel })
				} else {
					r.sim.ClearFaults()
				}
				r.await(p, record.PhaseDeleted)
			})
		})
	}
}

package syncer_test

import (
	"context"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// unlisted are OSCARs whose GET shows a service that their list leaves out.
var unlisted = map[string]func(r *rig, service string){
	"an incomplete list": func(r *rig, _ string) { r.fault(oscarsim.OpList, oscarsim.FaultPartial, 0) },
	"a lost label": func(r *rig, service string) {
		r.t.Helper()
		if err := r.sim.LoseLabel(service); err != nil {
			r.t.Fatal(err)
		}
	},
}

// TestAServiceThatTheListLeavesOutIsDeleted, before its end is told.
func TestAServiceThatTheListLeavesOutIsDeleted(t *testing.T) {
	for what, leaveOut := range unlisted {
		t.Run(what, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				r.makeReady(p)
				r.sim.PutBucket("grayify", "in/mine")
				r.watchBucketData("grayify")
				leaveOut(r, p.name)
				r.want(p, record.IntentDelete)
				if o := r.await(p, record.PhaseDeleted); o.Operation != "delete" {
					t.Errorf("acknowledgement %+v: want a deletion", o)
				}
				if _, stands := r.sim.Service(p.name); stands {
					t.Error("its deletion is acknowledged and it runs on")
				}
			})
		})
	}
}

// TestADeletionIsNotToldAsDoneWhileGetShowsTheService: OSCAR refuses to delete what its
// list leaves out.
func TestADeletionIsNotToldAsDoneWhileGetShowsTheService(t *testing.T) {
	for what, leaveOut := range unlisted {
		t.Run(what, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				r.makeReady(p)
				leaveOut(r, p.name)
				r.fault(oscarsim.OpDelete, oscarsim.Fault500, 0)
				r.want(p, record.IntentDelete)
				r.await(p, record.PhaseFailed, because(record.ReasonDeleteFailed))
				if err := r.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpDelete}); err != nil {
					t.Fatal(err)
				}
				r.await(p, record.PhaseDeleted)
				if _, stands := r.sim.Service(p.name); stands {
					t.Error("its deletion is acknowledged and it runs on")
				}
			})
		})
	}
}

// TestAnUnansweredDeleteIsNotBelievedOnListsAlone: none of it took effect, and no list
// shows the service.
func TestAnUnansweredDeleteIsNotBelievedOnListsAlone(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		inner := r.oscar("syncer")
		first := true
		r.start(func(c *syncer.Config) {
			c.OSCAR = &proxy{OSCAR: inner, erase: func(ctx context.Context, name string, timeout time.Duration) error {
				if first {
					first = false
					return &manager.APIError{Op: manager.OpDelete, Service: name, Err: context.DeadlineExceeded}
				}
				return inner.Delete(ctx, name, timeout)
			}}
		})
		p := newReplica("grayify")
		r.makeReady(p)
		if err := r.sim.LoseLabel(p.name); err != nil {
			t.Fatal(err)
		}
		r.want(p, record.IntentDelete)
		r.await(p, record.PhaseDeleted)
		if _, stands := r.sim.Service(p.name); stands {
			t.Error("its deletion is acknowledged and it runs on")
		}
	})
}

// TestAServiceThatTheListLeavesOutHasNotVanished: nothing is told, and nothing is made.
func TestAServiceThatTheListLeavesOutHasNotVanished(t *testing.T) {
	for what, leaveOut := range unlisted {
		t.Run(what, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				p.drift = "report"
				r.makeReady(p)
				since := p.revision
				leaveOut(r, p.name)
				gets := r.sim.Calls()["get"]
				r.eventually("it is looked for", func() bool { return r.sim.Calls()["get"] > gets+2 })
				r.past(p.name, since, func(o *record.Observed) {
					if o.Phase == record.PhaseDrifted || o.Phase == record.PhaseFailed {
						t.Errorf("a service that stands is told as %s: %s", o.Phase, o.Message)
					}
				})
				r.equalCalls(p.name, "create")
			})
		})
	}
}

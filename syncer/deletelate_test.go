package syncer_test

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestAcknowledgeNeedsAList: GET says 404, and that is not enough.
func TestAcknowledgeNeedsAList(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		r.ask(http.MethodDelete, "/system/services/grayify", "")
		r.fault(oscarsim.OpList, oscarsim.Fault500, 0)
		r.want(p, record.IntentDelete)
		lists := r.sim.Calls()["list"]
		r.eventually("the list was asked for", func() bool { return r.sim.Calls()["list"] > lists+2 })
		if o := r.observed(p.name); o.Phase == record.PhaseDeleted {
			t.Error("acknowledged without a list")
		}
		r.sim.ClearFaults()
		r.await(p, record.PhaseDeleted)
	})
}

// TestLateCreateAfterItsRollback: a POST that was not answered takes effect
// after the tombstone was written. It is not acknowledged before.
func TestLateCreateAfterItsRollback(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		if err := r.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultLate, Count: 1, Delay: 100 * time.Second}); err != nil {
			t.Fatal(err)
		}
		r.want(p, record.IntentApply)
		r.eventually("the POST was sent", func() bool { return len(r.calls(p.name)) == 1 })
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
		o := r.await(p, record.PhaseDeleted)
		r.sim.Settle()
		if _, ok := r.sim.Service(p.name); ok {
			t.Error("acknowledged, and the late creation is there")
		}
		r.equalCalls(p.name, "create", "update", "delete")
		if o.Operation != "delete" || !slices.Equal(o.BucketsMade, []string{"grayify"}) {
			t.Errorf("what was deleted is reported as never made: %+v", o)
		}
	})
}

// TestLateCreateOfAPredecessor: the process that sent the POST is gone, and its
// successor finds a tombstone and no service.
func TestLateCreateOfAPredecessor(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		stop := r.start()
		p := newReplica("grayify")
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.lateCreate()
		r.want(p, record.IntentApply)
		r.eventually("the POST was sent", func() bool { return len(r.calls(p.name)) == 1 })
		stop()
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
		r.start()
		r.await(p, record.PhaseDeleted)
		r.sim.Settle()
		if _, ok := r.sim.Service(p.name); ok {
			t.Error("acknowledged, and the late creation is there")
		}
	})
}

// TestALatePOSTOfAPredecessorThatTriedAgain: its POST followed a report, of a service that had vanished or of POSTs that
// had failed.
func TestALatePOSTOfAPredecessorThatTriedAgain(t *testing.T) {
	before := map[string]func(*rig, *replica){
		"drifted": func(r *rig, p *replica) {
			r.makeReady(p)
			r.lateCreate()
			r.sim.RemoveService(p.name)
		},
		"failed": func(r *rig, p *replica) {
			r.want(p, record.IntentPrepare)
			r.await(p, record.PhasePrepared)
			r.fault(oscarsim.OpCreate, oscarsim.Fault500, 3)
			r.want(p, record.IntentApply)
			r.await(p, record.PhaseFailed)
			r.lateCreate()
		},
	}
	orders := map[string]func(*record.Desired){"delete": func(*record.Desired) {}, "release": free}
	for phase, prepare := range before {
		for order, change := range orders {
			t.Run(phase+" "+order, func(t *testing.T) {
				await.InVirtualTime(t, func(t *testing.T) {
					r := newRig(t, oscarsim.Config{})
					stop := r.start()
					p := newReplica("grayify")
					prepare(r, p)
					sent := len(r.calls(p.name))
					r.eventually("the POST was sent", func() bool { return len(r.calls(p.name)) > sent })
					stop()
					r.want(p, record.IntentDelete, change)
					r.start()
					r.await(p, record.PhaseDeleted)
					r.sim.Settle()
					if v, ok := r.sim.Service(p.name); ok && strings.Contains(string(v.JSON), p.uid) {
						t.Error("acknowledged, and the late creation is there")
					}
				})
			})
		}
	}
}

// lateCreate has the next POST take effect later.
func (r *rig) lateCreate() {
	r.t.Helper()
	if err := r.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultLate, Count: 1, Delay: 200 * time.Second}); err != nil {
		r.t.Fatal(err)
	}
}

// TestUnansweredDeleteTakesTwoLists: a DELETE without an answer may still be at
// work. One list without the service does not acknowledge it.
func TestUnansweredDeleteTakesTwoLists(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		inner := r.oscar("syncer")
		listed := make(chan int, 1)
		r.start(func(c *syncer.Config) {
			c.Resync = never
			c.OSCAR = &proxy{OSCAR: inner, erase: func(ctx context.Context, name string, timeout time.Duration) error {
				err := inner.Delete(ctx, name, timeout)
				if err == nil {
					err = &manager.APIError{Op: manager.OpDelete, Service: name, Err: context.DeadlineExceeded}
				}
				listed <- r.sim.Calls()["list"]
				return err
			}}
		})
		p := newReplica("grayify")
		r.makeReady(p)
		r.want(p, record.IntentDelete)
		r.await(p, record.PhaseDeleted)
		if lists := r.sim.Calls()["list"] - <-listed; lists < 2 {
			t.Errorf("acknowledged after %d lists", lists)
		}
	})
}

// TestALateDeleteDoesNotEndTheNextLife: a second DELETE was answered, and the first one, which was not, takes effect later.
func TestALateDeleteDoesNotEndTheNextLife(t *testing.T) {
	late := func(r *rig, op oscarsim.Op) {
		if err := r.sim.SetFault(oscarsim.Fault{Op: op, Fault: oscarsim.FaultLate, Count: 1, Delay: 200 * time.Second}); err != nil {
			r.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		op   oscarsim.Op
		data string
		// slow says that OSCAR takes its time.
		slow bool
		// ends is called when the call was sent, and stop ends that syncer.
		ends func(r *rig, p *replica, stop func())
	}{
		"of this process": {op: oscarsim.OpDelete},
		"of a predecessor": {op: oscarsim.OpDelete, ends: func(r *rig, p *replica, stop func()) {
			r.await(p, record.PhaseDeleting, because(record.ReasonOscarUnreachable))
			stop()
			r.start()
		}},
		"of a predecessor that was stopped in it": {op: oscarsim.OpDelete, ends: func(r *rig, p *replica, stop func()) {
			r.eventually("the DELETE was sent", func() bool { return slices.Contains(r.calls(p.name), "delete") })
			stop()
			r.start()
		}},
		"of a predecessor that was stopped in it, and readmitted": {op: oscarsim.OpDelete, ends: func(r *rig, p *replica, stop func()) {
			r.eventually("the DELETE was sent", func() bool { return slices.Contains(r.calls(p.name), "delete") })
			stop()
			r.remove(record.ObservedServiceKey(clusterID, p.name))
			r.want(p, record.IntentDelete, func(d *record.Desired) { d.Told = &record.Told{Applied: 1} })
			r.start()
		}},
		"of a predecessor that was stopped in a second one": {op: oscarsim.OpDelete, slow: true, ends: func(r *rig, p *replica, stop func()) {
			r.eventually("the service is gone", func() bool { _, there := r.sim.Service(p.name); return !there })
			stop()
			r.start()
		}},
		"of the predecessor of one that was stopped in a second one": {op: oscarsim.OpDelete, slow: true, ends: func(r *rig, p *replica, stop func()) {
			r.eventually("the DELETE was sent", func() bool { return slices.Contains(r.calls(p.name), "delete") })
			stop()
			stop = r.start()
			r.eventually("the service is gone", func() bool { _, there := r.sim.Service(p.name); return !there })
			stop()
			r.start()
		}},
		"of a bucket": {op: oscarsim.OpBucketDelete, data: record.DataDelete},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				cfg := oscarsim.Config{}
				if c.slow {
					cfg.Latency = oscarsim.RealLatency
				}
				r := newRig(t, cfg)
				stop := r.start()
				p := newReplica("grayify")
				r.makeReady(p)
				late(r, c.op)
				r.want(p, record.IntentDelete, func(d *record.Desired) { d.Data = c.data })
				if c.ends != nil {
					c.ends(r, p, stop)
				}
				r.await(p, record.PhaseDeleted)
				r.forget(p)
				r.makeReady(newReplica("grayify"))
				r.sim.Settle()
				if _, ok := r.sim.Service("grayify"); !ok {
					t.Error("the service of the next life was deleted")
				}
				if _, ok := r.sim.Bucket("grayify"); !ok {
					t.Error("its bucket was deleted")
				}
			})
		})
	}
}

// TestALateDeleteLeavesTheWebhookOfTheNextLife: OSCAR has deleted the service, and hangs in its MinIO before it takes the
// webhook of that name.
func TestALateDeleteLeavesTheWebhookOfTheNextLife(t *testing.T) {
	for name, meanwhile := range map[string]func(r *rig, stop func()){
		"":                        func(*rig, func()) {},
		"the syncer is restarted": func(r *rig, stop func()) { stop(); r.start() },
		"etcd is away": func(r *rig, _ func()) {
			back := r.etcdGone()
			<-time.After(56 * time.Second)
			back()
		},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				stop := r.start()
				p := newReplica("grayify")
				r.makeReady(p)
				r.fault(oscarsim.OpDelete, oscarsim.FaultStall, 1)
				time.AfterFunc(200*time.Second, r.sim.ClearFaults)
				r.want(p, record.IntentDelete)
				r.eventually("the service is gone", func() bool { _, there := r.sim.Service(p.name); return !there })
				meanwhile(r, stop)
				r.await(p, record.PhaseDeleted)
				r.forget(p)
				next := newReplica("grayify")
				r.makeReady(next)
				<-time.After(200 * time.Second)
				if v, _ := r.sim.Service("grayify"); !v.Registered || v.Webhook != next.token {
					t.Errorf("webhook registered %t, of the next life %t", v.Registered, v.Webhook == next.token)
				}
			})
		})
	}
}

// TestADeletionIsNotHeldUpByARestart: a tombstone that a new syncer finds waits for no DELETE where the service stands.
func TestADeletionIsNotHeldUpByARestart(t *testing.T) {
	for name, buckets := range map[string][]string{"with storage": {"grayify"}, "without storage": nil} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				stop := r.start()
				p := newReplica("grayify")
				p.buckets = buckets
				r.makeReady(p)
				stop()
				r.want(p, record.IntentDelete)
				r.start()
				r.deletedSoon(p)
			})
		})
	}
	t.Run("in its creation", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r := newRig(t, oscarsim.Config{Latency: oscarsim.RealLatency})
			stop := r.start()
			p := newReplica("grayify")
			r.want(p, record.IntentPrepare)
			r.await(p, record.PhasePrepared)
			r.want(p, record.IntentApply)
			r.eventually("the POST was sent", func() bool { return len(r.calls(p.name)) > 0 })
			stop()
			r.start()
			r.await(p, record.PhaseReady)
			r.want(p, record.IntentDelete)
			r.deletedSoon(p)
		})
	})
}

// deletedSoon: no late write is waited for.
func (r *rig) deletedSoon(p *replica) {
	r.t.Helper()
	began := time.Now()
	r.await(p, record.PhaseDeleted)
	if took := time.Since(began); took > time.Minute {
		r.t.Errorf("acknowledged after %s", took)
	}
}

// TestAStopDuringADELETEHoldsNothingUp: the syncer waits for OSCAR's answer as it is stopped, and says so to the next one.
func TestAStopDuringADELETEHoldsNothingUp(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Latency: oscarsim.RealLatency})
		stop := r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		r.want(p, record.IntentDelete)
		r.eventually("the service is gone", func() bool { _, there := r.sim.Service(p.name); return !there })
		stop()
		if o := r.observed(p.name); o.Phase != record.PhaseDeleting || o.Status != http.StatusNoContent {
			t.Fatalf("it ended with %+v", o)
		}
		r.start()
		began := time.Now()
		if o := r.await(p, record.PhaseDeleted); o.Operation != record.OperationDelete {
			t.Errorf("it is told as never made: %+v", o)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("acknowledged after %s", took)
		}
	})
}

// TestAWaitIsTold: what a syncer that died may have sent is waited for, and the report says until when. It changes nothing of
// what the next one concludes from the report.
func TestAWaitIsTold(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		stop := r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		r.fault(oscarsim.OpDelete, oscarsim.FaultStall, 1)
		r.want(p, record.IntentDelete)
		r.eventually("the service is gone", func() bool { _, there := r.sim.Service(p.name); return !there })
		stop()
		before := r.observed(p.name)
		for range 2 {
			began := time.Now()
			stop = r.start()
			r.eventually("it is told until when it waits", func() bool {
				o := r.observed(p.name)
				return o.WaitsUntil != nil && o.WaitsUntil.After(began.Add(4*time.Minute))
			})
			o := *r.observed(p.name)
			if o.WaitsUntil = nil; !reflect.DeepEqual(&o, before) {
				t.Errorf("the report is %+v, and was %+v", o, before)
			}
			stop()
		}
		r.sim.ClearFaults()
		r.start()
		began := time.Now()
		if o := r.await(p, record.PhaseDeleted); o.WaitsUntil != nil {
			t.Errorf("it is over, and waits until %s", o.WaitsUntil)
		}
		if took := time.Since(began); took < 4*time.Minute {
			t.Errorf("acknowledged after %s, while a DELETE may be at work", took)
		}
	})
}

// TestADELETEAfterOneThatWasToldIsAssumed: a service that stands again is deleted anew, and what was told of the DELETE
// before it does not count for that.
func TestADELETEAfterOneThatWasToldIsAssumed(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Latency: oscarsim.RealLatency})
		stop := r.start()
		p := newReplica("grayify")
		p.buckets = nil
		r.makeReady(p)
		shown, _ := r.sim.Service(p.name)
		r.want(p, record.IntentDelete)
		r.eventually("the service is gone", func() bool { _, there := r.sim.Service(p.name); return !there })
		stop()
		if err := r.sim.PutService(string(shown.JSON)); err != nil {
			t.Fatal(err)
		}
		r.fault(oscarsim.OpDelete, oscarsim.FaultStall, 1)
		stop = r.start()
		r.eventually("the service is gone again", func() bool { _, there := r.sim.Service(p.name); return !there })
		stop()
		if o := r.observed(p.name); o.Status == http.StatusNoContent {
			t.Errorf("the report is of the DELETE before: %+v", o)
		}
		r.sim.ClearFaults()
		r.start()
		began := time.Now()
		r.await(p, record.PhaseDeleted)
		if took := time.Since(began); took < time.Minute {
			t.Errorf("acknowledged after %s, while a DELETE may be at work", took)
		}
	})
}

// TestALatePUTDoesNotEndTheObjects: a PUT that was not answered takes effect between the detaching of the service and its
// DELETE, which would empty the buckets that it names.
func TestALatePUTDoesNotEndTheObjects(t *testing.T) {
	late := func(r *rig) {
		if err := r.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpUpdate, Fault: oscarsim.FaultLate, Count: 1, Delay: 30 * time.Second}); err != nil {
			r.t.Fatal(err)
		}
	}
	ready := func(r *rig, p *replica) {
		r.makeReady(p)
		r.sim.PutBucket("grayify", "in/precious")
	}
	created := func(r *rig, p *replica) {
		r.sim.PutBucket("grayify", "in/precious")
		p.left = []string{"grayify"}
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		late(r)
		r.want(p, record.IntentApply)
	}
	changed := func(r *rig, p *replica) {
		ready(r, p)
		late(r)
		p.generation, p.image = 2, "example.org/other:2"
		r.want(p, record.IntentApply)
	}
	repaired := func(r *rig, p *replica) {
		ready(r, p)
		r.ask(http.MethodPut, "/system/services", vandal)
		r.before[p.name] += len(r.calls(p.name))
		late(r)
	}
	for name, c := range map[string]struct {
		causes func(*rig, *replica)
		// restarts says that the syncer is stopped in the PUT, and repeats that it is sent again, by the next one then.
		restarts, repeats bool
	}{
		"of a creation by a predecessor": {causes: created, restarts: true},
		"of a change":                    {causes: changed, repeats: true},
		"of a change by a predecessor":   {causes: changed, restarts: true},
		"of a repair by a predecessor":   {causes: repaired, restarts: true},
		"of a predecessor, and repeated": {causes: changed, restarts: true, repeats: true},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				inner := r.oscar("syncer")
				slow := func(c *syncer.Config) {
					c.OSCAR = &proxy{OSCAR: inner, erase: func(ctx context.Context, name string, timeout time.Duration) error {
						r.sim.Settle() // the last moment at which the PUT can come
						return inner.Delete(ctx, name, timeout)
					}}
				}
				stop := r.start(slow)
				p := newReplica("grayify")
				c.causes(r, p)
				r.eventually("the PUT was sent", func() bool { return slices.Contains(r.calls(p.name), "update") })
				start := func() {}
				if c.restarts {
					stop()
					start = func() { r.start(slow) }
				}
				if c.repeats {
					start()
					start = func() {}
					r.await(p, record.PhaseReady)
				}
				r.want(p, record.IntentDelete)
				start()
				r.await(p, record.PhaseDeleted)
				if b, ok := r.sim.Bucket("grayify"); !ok || len(b.Objects) == 0 {
					t.Error("the bucket was deleted with its objects")
				}
			})
		})
	}
}

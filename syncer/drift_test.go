package syncer_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// vandal is somebody's PUT: other image, our annotations dropped.
const vandal = `{"name":"grayify","image":"example.org/vandal","script":"s","owner":"cluster_admin",
	"input":[{"storage_provider":"minio.default","path":"grayify/in"}]}`

func TestVanishedIsMadeAgain(t *testing.T) {
	for _, coordinator := range []bool{true, false} {
		t.Run(fmt.Sprintf("coordinator %v", coordinator), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				p.coordinator = coordinator
				before := r.mirror.Revision()
				r.makeReady(p)
				if err := r.removeService(p.name); err != nil {
					t.Fatal(err)
				}
				// The repair may follow so closely that only the history shows the drift.
				const want = "prepared ready drifted ready"
				r.eventually("drifted, and ready again", func() bool { return len(r.phases(p.name, before)) >= len(want) })
				r.inPlace(p)
				if got := r.phases(p.name, before); got != want {
					t.Errorf("reports %q, want %q", got, want)
				}
				vanished := 0
				r.past(p.name, before+1, func(o *record.Observed) {
					if o.Phase == record.PhaseDrifted && strings.Contains(o.Message, "vanished") {
						vanished++
					}
				})
				if vanished != 1 {
					t.Errorf("%d reports of a vanished service, want 1", vanished)
				}
			})
		})
	}
}

// removeService is somebody's own detach and delete, which keeps the bucket.
func (r *rig) removeService(name string) error {
	if status := r.ask(http.MethodDelete, "/system/services/"+name, ""); status != 204 {
		return fmt.Errorf("delete answered %d", status)
	}
	return nil
}

// phases lists the phases that were reported since.
func (r *rig) phases(name string, since int64) string {
	r.t.Helper()
	var out []string
	r.past(name, since+1, func(o *record.Observed) { out = append(out, string(o.Phase)) })
	return strings.Join(out, " ")
}

func TestVanishedWithItsBucketLeftIsAttachedAgain(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		r.sim.PutBucket("grayify", "in/mine")
		r.watchBucketData("grayify")
		r.ask(http.MethodPut, "/system/services", `{"name":"grayify","image":"i","script":"s","owner":"cluster_admin"}`)
		r.ask(http.MethodDelete, "/system/services/grayify", "")
		r.eventually("it is made again", func() bool { v, ok := r.sim.Service(p.name); return ok && len(v.Inputs) == 1 && v.Token == p.token })
		r.await(p, record.PhaseReady)
		r.inPlace(p)
	})
}

// TestABucketDeletedByHandIsMadeAgain: nothing else tells that uploads start no job any
// more. OSCAR's PUT sets no tags, so that data=delete leaves the new one.
func TestABucketDeletedByHandIsMadeAgain(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		before := r.mirror.Revision()
		r.sim.RemoveBucket("grayify")
		r.eventually("the bucket is made again", func() bool { return slices.Contains(r.sim.Buckets(), "grayify") })
		r.eventually("it is told", func() bool { return r.phases(p.name, before) == "drifted ready" })
		r.inPlace(p)
		r.resynced()
		if got := r.phases(p.name, before); got != "drifted ready" {
			t.Errorf("reports %q", got)
		}
	})
}

// TestABucketDeletedByHandIsReported where nothing is to be repaired.
func TestABucketDeletedByHandIsReported(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		r.want(p, record.IntentApply, func(d *record.Desired) { d.Drift = "report" })
		r.sim.RemoveBucket("grayify")
		o := r.await(p, record.PhaseDrifted)
		if !strings.Contains(o.Message, "without its buckets (grayify)") {
			t.Errorf("it says %q", o.Message)
		}
		r.equalCalls(p.name, "create")
		r.sim.PutBucket("grayify")
		r.await(p, record.PhaseReady)
	})
}

func TestChangedIsRepaired(t *testing.T) {
	for _, coordinator := range []bool{true, false} {
		t.Run(fmt.Sprintf("coordinator %v", coordinator), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				p.coordinator = coordinator
				before := r.mirror.Revision()
				r.makeReady(p)
				r.ask(http.MethodPut, "/system/services", vandal)
				// The last report may be the ready of before.
				const want = "prepared ready drifted ready"
				r.eventually("drifted, and ready again", func() bool { return len(r.phases(p.name, before)) >= len(want) })
				r.inPlace(p)
				v, _ := r.sim.Service(p.name)
				if v.Annotations["oscarfed/uid"] != p.uid {
					t.Errorf("annotations %v", v.Annotations)
				}
				r.resynced()
				if got := r.phases(p.name, before); got != want {
					t.Errorf("reports %q, want %q", got, want)
				}
			})
		})
	}
}

func TestDriftIsOnlyReported(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		p.drift = "report"
		r.makeReady(p)
		r.ask(http.MethodPut, "/system/services", vandal)
		r.await(p, record.PhaseDrifted, because(record.ReasonDrifted))
		r.resynced()
		r.equalCalls(p.name, "create", "update")
		if err := r.removeService(p.name); err != nil {
			t.Fatal(err)
		}
		r.await(p, record.PhaseDrifted, func(o *record.Observed) bool { return strings.Contains(o.Message, "vanished") })
		r.resynced()
		r.equalCalls(p.name, "create", "update", "delete")
	})
}

// resynced waits for two full compares from now on.
func (r *rig) resynced() {
	r.t.Helper()
	configs := r.sim.Calls()["config"]
	r.eventually("two full compares", func() bool { return r.sim.Calls()["config"] >= configs+3 })
}

// TestDriftUnfixable: somebody changes the service back after each repair.
func TestDriftUnfixable(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		other := strings.Replace(vandal, "example.org/vandal", "example.org/other-vandal", 1)
		change := vandal
		fight := func() bool {
			o := r.observed(p.name)
			if v, _ := r.sim.Service(p.name); v.Image != p.image {
				return o.Reason == record.ReasonDriftUnfixable
			}
			if o.Phase == record.PhaseReady {
				r.ask(http.MethodPut, "/system/services", change)
			}
			return false
		}
		r.eventually("it is given up", fight)
		repairs := len(r.calls(p.name))
		r.resynced()
		if n := len(r.calls(p.name)); n != repairs {
			t.Errorf("%d writes after it was given up", n-repairs)
		}
		// Another change is another matter, and given up in its turn.
		r.ask(http.MethodPut, "/system/services", other)
		r.eventually("it is repaired", func() bool { v, _ := r.sim.Service(p.name); return v.Image == p.image })
		r.eventually("it is given up again", func() bool { change = other; return fight() })
		// A new generation starts afresh.
		p.generation, p.image = 2, "example.org/new"
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		r.inPlace(p)
	})
}

// repairedOnce waits until a drift after before is repaired, and sees that it is so for good.
func (r *rig) repairedOnce(p *replica, before int64) {
	r.t.Helper()
	const want = "drifted ready"
	r.eventually("drifted, and ready again", func() bool { return len(r.phases(p.name, before)) >= len(want) })
	r.inPlace(p)
	writes := len(r.calls(p.name))
	r.resynced()
	if got := r.phases(p.name, before); got != want || len(r.calls(p.name)) != writes {
		r.t.Errorf("reports %q, want %q; calls %v; the last: %+v", got, want, r.calls(p.name), r.observed(p.name))
	}
}

// TestARepairOfAUsersServiceWasNeverEnough: OSCAR finds the group (VO) of a service when its owner
// makes it, and somebody's PUT has lost it.
func TestARepairOfAUsersServiceWasNeverEnough(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		n := virtual.NewNetwork(t, embedded.Config{})
		i := newIssuer(t, n)
		r := newRigOn(t, n, withUsers(i))
		p := newReplica("grayify")
		p.owner = bob
		r.deliver(i.Token(bob, nil), inAnHour())
		r.start()
		r.makeReady(p)
		before := r.mirror.Revision()
		r.ask(http.MethodPut, "/system/services", strings.Replace(vandal, "cluster_admin", bob, 1))
		r.repairedOnce(p, before)
	})
}

func TestDriftThatOSCARDoesNotLetUsRepair(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		r.ask(http.MethodPut, "/system/services", vandal)
		r.fault(oscarsim.OpUpdate, oscarsim.Fault500, 0)
		r.await(p, record.PhaseFailed, because(record.ReasonUpdateFailed))
		r.sim.ClearFaults()
		r.await(p, record.PhaseReady)
		r.inPlace(p)
	})
}

// TestARepairThatWaitsDoesNotShowItsLastFailure: OSCAR is itself again, and another
// service's creation keeps it busy.
func TestARepairThatWaitsDoesNotShowItsLastFailure(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		gate, inner := newGate(), r.oscar("syncer")
		r.start(func(c *syncer.Config) {
			c.OSCAR = &proxy{OSCAR: inner, get: func(ctx context.Context, name string) (*manager.Service, error) {
				if name == "busy" {
					gate.pass()
				}
				return inner.Get(ctx, name)
			}}
		})
		p := newReplica("grayify")
		r.makeReady(p)
		r.ask(http.MethodPut, "/system/services", vandal)
		r.fault(oscarsim.OpUpdate, oscarsim.Fault500, 0)
		r.await(p, record.PhaseFailed, because(record.ReasonUpdateFailed))
		gate.arm()
		open := sync.OnceFunc(func() { close(gate.opened) })
		t.Cleanup(open)
		busy := newReplica("busy")
		r.want(busy, record.IntentApply)
		<-gate.reached
		r.sim.ClearFaults()
		o := r.await(p, record.PhaseDrifted, because(record.ReasonDrifted))
		if !strings.Contains(o.Message, "it is repaired") {
			t.Errorf("it says %q", o.Message)
		}
		open()
		r.await(p, record.PhaseReady)
		r.inPlace(p)
	})
}

// TestMarkLost: somebody deleted the service and made it again from its own
// read-back. OSCAR gave it another token.
func TestMarkLost(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start(func(c *syncer.Config) { c.Resync = never }) // it would be repaired before
		p := newReplica("grayify")
		r.makeReady(p)
		if err := r.removeService(p.name); err != nil {
			t.Fatal(err)
		}
		again := fmt.Sprintf(`{"name":"grayify","image":"i","script":"s","annotations":{"oscarfed/uid":%q,"oscarfed/generation":"1"}}`, p.uid)
		if err := r.sim.PutService(again); err != nil {
			t.Fatal(err)
		}
		r.watch("service made again", func() any { v, _ := r.sim.Service(p.name); return v })
		r.want(p, record.IntentApply) // look again
		r.await(p, record.PhaseHeld, because(record.ReasonMarkLost))
		r.want(p, record.IntentDelete)
		r.await(p, record.PhaseDeleted)
		r.equalCalls(p.name, "create", "delete")
	})
}

func TestForeignInThePlaceOfOurs(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start(func(c *syncer.Config) { c.Resync = never })
		p := newReplica("grayify")
		r.makeReady(p)
		if err := r.removeService(p.name); err != nil {
			t.Fatal(err)
		}
		r.foreignService("grayify", "grayify")
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseHeld, because(record.ReasonNameTaken))
		r.equalCalls(p.name, "create", "delete")
	})
}

func TestAheadIsHeld(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		p.generation = 7
		r.makeReady(p)
		r.watch("the service", func() any { v, _ := r.sim.Service(p.name); return v })
		// The store is restored from an older state.
		p.generation, p.image = 6, "example.org/older"
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseHeld, because(record.ReasonAheadOfDesired))
		r.equalCalls(p.name, "create")
	})
}

// TestOrphanIsHeld: absence of a desired record is never an order.
func TestOrphanIsHeld(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		r.watch("the orphan", func() any { v, _ := r.sim.Service(p.name); return v })
		r.forget(p)
		r.eventually("it is listed as orphan", func() bool {
			c := r.cluster()
			return c != nil && len(c.Orphans) == 1 && c.Orphans[0].ServiceName == "grayify" && c.Orphans[0].UID == p.uid && c.Orphans[0].Generation == 1
		})
		r.resynced()
		before := r.put("/oscarfed/v1/test/before", "x")
		r.resynced()
		if after := r.put("/oscarfed/v1/test/after", "x"); after != before+1 {
			t.Errorf("an orphan that stands is told %d times", after-before-1)
		}
		r.equalCalls(p.name, "create")
	})
}

// TestIdleWritesNothing: with nothing to do, etcd stays as it is.
func TestIdleWritesNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p, refused := newReplica("grayify"), newReplica("refused")
		r.makeReady(p)
		r.sim.PutBucket("refused")
		r.want(refused, record.IntentPrepare)
		r.await(refused, record.PhaseRefused)
		r.resynced()
		before := r.put("/oscarfed/v1/test/before", "x")
		r.resynced()
		if after := r.put("/oscarfed/v1/test/after", "x"); after != before+1 {
			t.Errorf("%d revisions were written while idle", after-before-1)
		}
	})
}

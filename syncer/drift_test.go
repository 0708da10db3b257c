package syncer_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// vandal is somebody's PUT: other image, our annotations dropped.
const vandal = `{"name":"grayify","image":"example.org/vandal","script":"s","owner":"cluster_admin",
	"input":[{"storage_provider":"minio.default","path":"grayify/in"}]}`

func TestVanishedIsMadeAgain(t *testing.T) {
	for _, coordinator := range []bool{true, false} {
		t.Run(fmt.Sprintf("coordinator %v", coordinator), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
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
	inVirtualTime(t, func(t *testing.T) {
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
	inVirtualTime(t, func(t *testing.T) {
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
	inVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		r.want(p, record.IntentApply, func(d *record.Desired) { d.Drift = "report" })
		r.sim.RemoveBucket("grayify")
		o := r.await(p, record.PhaseDrifted)
		if !strings.Contains(o.Message, "lost its buckets (grayify)") {
			t.Errorf("it says %q", o.Message)
		}
		r.equalCalls(p.name, "create")
		r.sim.PutBucket("grayify")
		r.await(p, record.PhaseReady)
	})
}

// TestChangedIsRepaired, also on a worker, whose bucket that PUT makes: OSCAR's creation
// of a worker makes none.
func TestChangedIsRepaired(t *testing.T) {
	for _, coordinator := range []bool{true, false} {
		t.Run(fmt.Sprintf("coordinator %v", coordinator), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
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
	inVirtualTime(t, func(t *testing.T) {
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
	inVirtualTime(t, func(t *testing.T) {
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

func TestDriftThatOSCARDoesNotLetUsRepair(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
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
	inVirtualTime(t, func(t *testing.T) {
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
	inVirtualTime(t, func(t *testing.T) {
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
	inVirtualTime(t, func(t *testing.T) {
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
	inVirtualTime(t, func(t *testing.T) {
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
	inVirtualTime(t, func(t *testing.T) {
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
		r.equalCalls(p.name, "create")
	})
}

// cluster is the present report about the cluster, or nil.
func (r *rig) cluster() *record.ObservedCluster {
	r.t.Helper()
	kv, ok := r.mirror.Snapshot().KV(record.ObservedClusterKey(clusterID))
	if !ok {
		return nil
	}
	c, err := store.Decode[record.ObservedCluster](kv)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// TestAnOscarThatListsAndDoesNotSayWhoItIs: the report of the cluster keeps what was
// known, and the syncer goes on.
func TestAnOscarThatListsAndDoesNotSayWhoItIs(t *testing.T) {
	for _, op := range []oscarsim.Op{oscarsim.OpInfo, oscarsim.OpConfig} {
		t.Run(op, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				r.eventually("the version is known", func() bool { c := r.cluster(); return c != nil && c.OscarVersion != "" })
				known := r.cluster()
				r.fault(op, oscarsim.Fault500, 0)
				r.eventually("OSCAR was asked in vain", func() bool {
					c := r.cluster()
					return c.Reason == record.ReasonOscarUnreachable
				})
				p := newReplica("grayify")
				r.want(p, record.IntentPrepare)
				r.eventually("full compares were tried", func() bool { return r.sim.Calls()[op] >= 5 })
				if c := r.cluster(); c.OscarVersion != known.OscarVersion || c.MinioEndpoint != known.MinioEndpoint {
					t.Errorf("the report was %+v and is %+v", known, c)
				}
				r.sim.ClearFaults()
				r.await(p, record.PhasePrepared)
			})
		})
	}
}

// TestClusterReportWithoutASession: a syncer that has lost its session does not
// name its own recipient in place of its successor's.
func TestClusterReportWithoutASession(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		gate, inner, log := newGate(), r.oscar("syncer"), &diary{}
		gate.arm()
		r.start(func(c *syncer.Config) {
			c.Logger, c.Identity = slog.New(slog.NewTextHandler(log, nil)), newIdentity(t)
			c.OSCAR = &proxy{OSCAR: inner, storage: func(ctx context.Context) (manager.Storage, error) {
				gate.pass()
				return inner.Storage(ctx)
			}}
		})
		<-gate.reached
		r.revokeSession()
		r.start(func(c *syncer.Config) { c.Instance = "successor" })
		r.eventually("the successor reports", func() bool { c := r.cluster(); return c != nil && c.Recipient == r.identity.Recipient() })
		close(gate.opened)
		r.eventually("it has noticed", func() bool { return log.holds("session ended") })
		if c := r.cluster(); c.Recipient != r.identity.Recipient() {
			t.Error("the recipient is that of a syncer without a session")
		}
	})
}

func TestClusterReport(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.fault(oscarsim.OpAny, oscarsim.FaultRefuse, 0)
		r.start()
		r.eventually("the recipient is reported while OSCAR is away", func() bool {
			c := r.cluster()
			return c != nil && c.Recipient == r.identity.Recipient() && c.Reason == record.ReasonOscarUnreachable
		})
		r.sim.ClearFaults()
		r.eventually("OSCAR is reported", func() bool {
			c := r.cluster()
			return c.OscarVersion == "v4.1.2" && c.MinioEndpoint != "" && c.MinioRegion != "" && c.Reason == ""
		})
		kv, _ := r.mirror.Snapshot().KV(record.ObservedClusterKey(clusterID))
		if strings.Contains(string(kv.Value), "root-key") {
			t.Errorf("the keys of MinIO are reported: %s", kv.Value)
		}
	})
}

// TestIdleWritesNothing: with nothing to do, etcd stays as it is.
func TestIdleWritesNothing(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
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

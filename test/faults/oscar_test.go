package faults_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// broken is an OSCAR that cannot be worked with, while its syncer lives.
type broken struct {
	end, mend func(*world.Cluster)
	reason    record.Reason
	// says is in the words about it, and sure that waiting does not help.
	says string
	sure bool
}

func brokenOscars() map[string]broken {
	fault := func(op oscarsim.Op, kind string) func(*world.Cluster) {
		return func(c *world.Cluster) {
			if err := c.Sim.SetFault(oscarsim.Fault{Op: op, Fault: kind}); err != nil {
				panic(err)
			}
		}
	}
	mend := func(c *world.Cluster) { c.Sim.ClearFaults() }
	return map[string]broken{
		"OSCAR is dead": {(*world.Cluster).OscarDies, (*world.Cluster).OscarLives, "OscarUnreachable", "connection refused", true},
		"OSCAR hangs":   {fault(oscarsim.OpAny, oscarsim.FaultHang), mend, "OscarUnreachable", "is silent", false},
		"MinIO is dead": {fault("minio", oscarsim.FaultRefuse), mend, "StorageUnreachable", "connect: connection refused", false},
		"MinIO hangs":   {fault("minio", oscarsim.FaultHang), mend, "StorageUnreachable", "MinIO", false},
	}
}

// withoutC is fdl's federation on a and b alone.
func withoutC(name string) string {
	body := fdl(name, "256Mi")
	before, rest, _ := strings.Cut(body, `},
{"type":"oscar","cluster_id":"oscar-cluster-c"`)
	_, after, _ := strings.Cut(rest, `}]},`)
	return before + `}]},` + after
}

// TestAnOscarThatBreaksInACreateDoesNotHoldItsName: its syncer lives. The federation ends,
// the name is free, and what stays held is the place on that cluster, in words that help.
func TestAnOscarThatBreaksInACreateDoesNotHoldItsName(t *testing.T) {
	t.Parallel()
	const c = "oscar-cluster-c"
	for name, how := range brokenOscars() {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t, world.Options{
					ControlPlane: func(cfg *controlplane.Config) { cfg.ApplyGrace = time.Second },
					Syncer:       func(cfg *syncer.Config) { cfg.WriteTimeout = time.Second },
				})
				cluster := w.Cluster(c)
				if err := cluster.Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultHang}); err != nil {
					t.Fatal(err)
				}
				created := make(chan error, 1)
				go func() { created <- createIn(w, w.Client, "alpha") }()
				w.Eventually("the creation is under way", func() bool { return cluster.Sim.Calls()[oscarsim.OpCreate] > 0 })
				how.end(cluster)
				if code := clientCode(<-created); code != "replica_failed" {
					t.Errorf("the creation was answered %q", code)
				}
				w.Eventually("the creation has ended", func() bool {
					return len(w.Keys(record.NamesPrefix)) == 0 && len(w.Keys(record.DesiredServicesPrefix("oscar-cluster-a"))) == 0
				})
				w.Unhurried()
				status, _, text := w.Do("POST", "/system/services", fdl("alpha", "256Mi"))
				// That nothing stands there can be told without MinIO: the place is free then, and the vote is refused.
				told := status == 503 && how.reason == record.ReasonStorageUnreachable ||
					status == 409 && strings.Contains(text, "leave the cluster out") && strings.Contains(text, "cluster remove oscar-cluster-c")
				if !told || !strings.Contains(text, "oscar-cluster-c/alpha2") || !strings.Contains(text, how.says) {
					t.Errorf("a creation over the place that is held: %d %s", status, text)
				}
				if status, _, text := w.Do("POST", "/system/services", withoutC("alpha")); status != 201 {
					t.Errorf("a creation that leaves the cluster out: %d %s", status, text)
				}
				mustDelete(w, "alpha")
				how.mend(cluster)
				cluster.Sim.ClearFaults()
				w.Eventually("its tombstone is acknowledged", func() bool { return nothingDesired(w) })
				if slices.Contains(cluster.Sim.Services(), "alpha2") {
					t.Error("what it had begun to make still stands")
				}
				mustCreate(w, "alpha")
			})
		})
	}
}

// nothingDesired says that no cluster has a desired record.
func nothingDesired(w *world.World) bool {
	return !slices.ContainsFunc(clusterIDs, func(id string) bool { return len(w.Keys(record.DesiredServicesPrefix(id))) > 0 })
}

// TestADeletionWithABrokenOscarFreesTheName: and the places on all other clusters.
func TestADeletionWithABrokenOscarFreesTheName(t *testing.T) {
	t.Parallel()
	const c = "oscar-cluster-c"
	for name, how := range brokenOscars() {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t, world.Options{})
				mustCreate(w, "alpha")
				how.end(w.Cluster(c))
				mustDelete(w, "alpha")
				w.Eventually("the others are free", func() bool {
					return len(w.Keys(record.DesiredServicesPrefix("oscar-cluster-a")))+len(w.Keys(record.DesiredServicesPrefix("oscar-cluster-b"))) == 0
				})
				if status, _, text := w.Do("POST", "/system/services", withoutC("alpha")); status != 201 {
					t.Errorf("a creation that leaves the cluster out: %d %s", status, text)
				}
				how.mend(w.Cluster(c))
				w.Eventually("the tombstone is acknowledged", func() bool { return len(w.Keys(record.DesiredServicesPrefix(c))) == 0 })
				if slices.Contains(w.Cluster(c).Sim.Services(), "alpha2") {
					t.Error("its service still stands")
				}
			})
		})
	}
}

// TestADeletionEndsARollbackThatWaits: the answer to a creation over a rollback says that
// the rollback is to be deleted. After that deletion the creation works.
func TestADeletionEndsARollbackThatWaits(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, world.Options{
			ControlPlane: func(cfg *controlplane.Config) { cfg.ApplyGrace = time.Second },
			// It never counts as away.
			Syncer: func(cfg *syncer.Config) { cfg.WriteTimeout, cfg.SessionTTL = time.Second, time.Hour },
		})
		cluster := w.Cluster("oscar-cluster-c")
		if err := cluster.Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultHang}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Client.CreateService(t.Context(), world.Service(t, fdl("alpha", "256Mi")), client.CreateOptions{Async: true}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("the creation is under way", func() bool { return cluster.Sim.Calls()[oscarsim.OpCreate] > 0 })
		cluster.OscarDies()
		w.Eventually("it is being rolled back", func() bool {
			v, err := w.Client.Replicas(t.Context(), "alpha0", "")
			return err == nil && v.Phase == string(record.PhaseRollingBack)
		})
		status, _, text := w.Do("POST", "/system/services", withoutC("alpha"))
		if status != 409 || !strings.Contains(text, "delete it") {
			t.Errorf("a creation of the same name: %d %s", status, text)
		}
		if status, _, text := w.Do("DELETE", "/system/services/alpha0?wait=0s", ""); status != 204 {
			t.Errorf("its deletion: %d %s", status, text)
		}
		w.Eventually("the others have nothing left to do", func() bool {
			return len(w.Keys(record.DesiredServicesPrefix("oscar-cluster-a")))+len(w.Keys(record.DesiredServicesPrefix("oscar-cluster-b"))) == 0
		})
		w.Unhurried()
		if status, _, text := w.Do("POST", "/system/services", withoutC("alpha")); status != 201 {
			t.Errorf("after that: %d %s", status, text)
		}
		cluster.OscarLives()
		cluster.Sim.ClearFaults()
		w.Eventually("the tombstone is acknowledged", func() bool { return len(w.Keys(record.DesiredServicesPrefix("oscar-cluster-c"))) == 0 })
	})
}

// TestARefusedCreationSaysWhatIsWrongWithTheCluster: beside the open vote, and in the
// answer; at once when waiting does not help, else at the deadline.
func TestARefusedCreationSaysWhatIsWrongWithTheCluster(t *testing.T) {
	t.Parallel()
	const c = "oscar-cluster-c"
	for name, how := range brokenOscars() {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				clock := &world.Clock{}
				w := newWorld(t, world.Options{ControlPlane: func(cfg *controlplane.Config) { cfg.Now, cfg.PrepareDeadline = clock.Now, time.Hour }})
				how.end(w.Cluster(c))
				created := make(chan error, 1)
				go func() { created <- createIn(w, w.Client, "alpha") }()
				if !how.sure {
					w.Eventually("it says what it waits for", func() bool {
						kv, err := w.Store.Get(t.Context(), record.ObservedServiceKey(c, "alpha2"))
						if err != nil {
							return false
						}
						o, err := store.Decode[record.Observed](kv)
						return err == nil && o.Phase == record.PhasePending && o.Vote == nil && o.Reason == how.reason && strings.Contains(o.Message, how.says)
					})
					clock.Advance(2 * time.Hour)
					touch(w)
				}
				e, ok := errors.AsType[*client.Error](<-created)
				if !ok || e.Code() != "unavailable" {
					t.Fatalf("the creation was answered %v", e)
				}
				for _, r := range e.Problem.Replicas {
					if r.ClusterID == c && (r.Cause == nil || r.Cause.Reason != string(how.reason) || !strings.Contains(r.Cause.Message, how.says) ||
						!strings.Contains(r.Cause.Message, "best-effort")) {
						t.Errorf("the cause is %+v", r.Cause)
					}
				}
				how.mend(w.Cluster(c))
				mustCreate(w, "alpha")
			})
		})
	}
}

// TestABestEffortFederationIsCompletedWhenItsOscarIsBack: a no for a dead OSCAR does not
// last longer than that.
func TestABestEffortFederationIsCompletedWhenItsOscarIsBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, world.Options{})
		cluster := w.Cluster("oscar-cluster-c")
		cluster.OscarDies()
		if _, err := w.Client.CreateService(t.Context(), world.Service(t, fdl("alpha", "256Mi")), client.CreateOptions{Wait: limit, Deployment: "best-effort"}); err != nil {
			t.Fatal(err)
		}
		cluster.OscarLives()
		stands(w, "alpha", "256Mi")
	})
}

package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// removeCluster orders a removal and waits for its end.
func removeCluster(w *world.World, id string, opts client.RemoveClusterOptions) (*client.RemoveClusterResult, error) {
	w.T.Helper()
	opts.Wait = limit
	return w.Client.RemoveCluster(w.T.Context(), id, opts)
}

// removed is removeCluster for one that must succeed.
func removed(w *world.World, id string, opts client.RemoveClusterOptions) *client.RemoveClusterResult {
	w.T.Helper()
	res, err := removeCluster(w, id, opts)
	if err != nil {
		w.T.Fatal(err)
	}
	if res.Cluster != nil {
		w.T.Fatalf("it is still there: %+v", res.Cluster.Removal)
	}
	return res
}

// membersOf lists cluster/service of the replicas that the API shows, the coordinator first.
func membersOf(w *world.World, service string) []string {
	w.T.Helper()
	v, err := w.Client.Replicas(w.T.Context(), service, "")
	if err != nil {
		w.T.Fatal(err)
	}
	out := []string{v.Self.ClusterID + "/" + v.Self.ServiceName}
	for _, m := range v.Replicas {
		out = append(out, m.ClusterID+"/"+m.ServiceName)
	}
	return out
}

// tree lists what is left below the prefix of a cluster.
func tree(w *world.World, id string) []string {
	w.T.Helper()
	return w.Keys(record.ClusterTreePrefix + id + "/")
}

func away(w *world.World, id string) {
	w.T.Helper()
	w.Cluster(id).Stop()
	w.Eventually(id+" is away", func() bool {
		v, err := w.Client.Cluster(w.T.Context(), id)
		return err == nil && !v.Alive
	})
}

func TestRemovingAClusterThatIsAlive(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		if res := removed(w, c, client.RemoveClusterOptions{}); res.Pending != 0 {
			t.Errorf("%+v", res)
		}
		if slices.Contains(w.Cluster(c).Sim.Services(), names[2]) {
			t.Error("the replica is still there")
		}
		if got := membersOf(w, names[0]); !slices.Equal(got, []string{a + "/grayifyr0", b + "/grayifyr1"}) {
			t.Errorf("members %v", got)
		}
		w.Eventually("the others have the next generation", func() bool {
			v, err := w.Client.Replicas(t.Context(), names[0], "")
			return err == nil && v.Phase == "ready" && v.Generation == 2
		})
		for i, id := range []string{a, b} {
			if v, ok := w.Cluster(id).Sim.Service(names[i]); !ok || v.Secrets["KEY"] != "canary-environment-secret" {
				t.Errorf("%s: %+v", id, v)
			}
		}
		w.Eventually("nothing is left below its prefix", func() bool { return len(tree(w, c)) == 0 })
		// Twice: it is not there.
		if _, err := removeCluster(w, c, client.RemoveClusterOptions{}); codeOf(err) != "not_found" {
			t.Error(err)
		}
		// Its name and its places are free.
		w.Register(w.Cluster(c))
		w.Cluster(c).Stop()
		w.Cluster(c).Start(accepting(w, c))
		if err := w.CP.Clusters.Await(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if _, err := w.CP.Federations.ChangeReplicas(t.Context(), admin, names[0], federations.ReplicasRequest{
			Add: []oscar.Member{{Type: "oscar", ClusterID: c, ServiceName: names[2]}}, Wait: limit,
		}); err != nil {
			t.Error(err)
		}
	})
}

func TestRemovingAClusterThatIsAwayNeedsForceAndFindsItsTombstones(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		away(w, c)
		_, err := removeCluster(w, c, client.RemoveClusterOptions{})
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code() != "failed_precondition" || !strings.Contains(e.Problem.Detail, "is away") || !strings.Contains(e.Problem.Detail, "force") {
			t.Fatal(err)
		}
		if v, err := w.Client.Cluster(t.Context(), c); err != nil || v.State != "active" {
			t.Errorf("a refused removal has left a trace: %+v %v", v, err)
		}
		if res := removed(w, c, client.RemoveClusterOptions{Force: true}); res.Pending != 1 {
			t.Errorf("pending %d", res.Pending)
		}
		if got := membersOf(w, names[0]); !slices.Equal(got, []string{a + "/grayifyr0", b + "/grayifyr1"}) {
			t.Errorf("members %v", got)
		}
		w.Eventually("the federation is ready without it", func() bool { return ready(w) })
		if !slices.Contains(w.Cluster(c).Sim.Services(), names[2]) {
			t.Fatal("what is away was deleted")
		}
		// The whole federation can go meanwhile.
		if res, err := w.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{Wait: limit}); err != nil || res.Pending != 0 {
			t.Errorf("%+v %v", res, err)
		}
		w.Eventually("the federation is gone", func() bool { return len(w.Keys(record.FederationsPrefix)) == 0 })
		// It returns, does what it was told, and is forgotten.
		w.Cluster(c).Start()
		w.Eventually("it has deleted its replica", func() bool { return !slices.Contains(w.Cluster(c).Sim.Services(), names[2]) })
		w.Eventually("nothing is left of it", func() bool { return len(tree(w, c)) == 0 })
		if v, ok := w.Cluster(a).Sim.Bucket(names[0]); !ok {
			t.Errorf("the bucket is gone: %+v", v)
		}
		if got := w.Keys(record.DeletedPrefix); len(got) != 3 {
			t.Errorf("remembered: %v", got)
		}
	})
}

func TestOrphanKeepsTheServiceWithoutMarks(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("away %v", gone), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				if _, err := create(w, body); err != nil {
					t.Fatal(err)
				}
				sim := w.Cluster(c).Sim
				before, _ := sim.Service(names[2])
				if gone {
					away(w, c)
				}
				removed(w, c, client.RemoveClusterOptions{Orphan: true, Force: gone})
				if gone {
					w.Cluster(c).Start()
					w.Eventually("its order is done", func() bool { return len(tree(w, c)) == 0 })
				}
				v, ok := sim.Service(names[2])
				if !ok {
					t.Fatal("the service is gone")
				}
				text := string(v.JSON)
				for _, word := range []string{"oscarfed/", "federation-worker", "origin-", `"federation"`} {
					if strings.Contains(text, word) {
						t.Errorf("%s is still in %s", word, text)
					}
				}
				if v.Secrets["KEY"] != "canary-environment-secret" || v.Token != before.Token || !strings.Contains(text, "grayifyr0/in") {
					t.Errorf("it is not as it was: %s %v", text, v.Secrets)
				}
				if n := sim.Calls()["delete"]; n != 0 {
					t.Errorf("%d deletions", n)
				}
				if got := membersOf(w, names[0]); len(got) != 2 {
					t.Errorf("members %v", got)
				}
			})
		})
	}
}

func TestRemovingTheClusterOfACoordinatorNeedsForce(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		_, err := removeCluster(w, a, client.RemoveClusterOptions{})
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code() != "failed_precondition" || !strings.Contains(e.Problem.Detail, "cluster_admin/grayifyr0") {
			t.Fatal(err)
		}
		if got := membersOf(w, names[0]); len(got) != 3 {
			t.Errorf("members %v", got)
		}
		removed(w, a, client.RemoveClusterOptions{Force: true})
		w.Eventually("the federation's services are gone everywhere", func() bool { return gone(w) })
		if _, ok := w.Cluster(a).Sim.Bucket(names[0]); !ok {
			t.Error("the bucket is gone")
		}
		w.Eventually("and the federation", func() bool { return len(w.Keys(record.FederationsPrefix)) == 0 && len(tree(w, a)) == 0 })
	})
}

// TestManyFederationsLeaveACluster, each in one transaction, while more are being
// created there: those fail cleanly.
func TestManyFederationsLeaveACluster(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		const many = 10
		def := func(name string) string {
			return fmt.Sprintf(`{"name":"%[1]sx","cluster_id":%[2]q,"image":"i","script":"#!/bin/sh\n","federation":{"topology":"star","members":[
{"type":"oscar","cluster_id":%[3]q,"service_name":"%[1]sy"},{"type":"oscar","cluster_id":%[4]q,"service_name":"%[1]sz"}]}}`, name, a, b, c)
		}
		var g errgroup.Group
		for i := range many {
			g.Go(func() error {
				_, err := create(w, def(fmt.Sprintf("before%02d", i)))
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		var during errgroup.Group
		for i := range 6 {
			during.Go(func() error {
				_, err := create(w, def(fmt.Sprintf("during%02d", i)))
				if code := codeOf(err); err != nil && !slices.Contains([]string{"invalid", "failed_precondition", "replica_failed"}, code) {
					return fmt.Errorf("during%02d: %q: %w", i, code, err)
				}
				return nil
			})
		}
		removed(w, c, client.RemoveClusterOptions{})
		if err := during.Wait(); err != nil {
			t.Error(err)
		}
		list, err := w.Client.Federations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			for _, m := range f.Replicas {
				if m.ClusterID == c && f.Phase != "aborted" && f.Phase != "rolled_back" {
					t.Errorf("%s (%s) is still on the removed cluster", f.GroupID, f.Phase)
				}
			}
			if strings.HasPrefix(f.GroupID, "before") && f.Generation != 2 {
				t.Errorf("%s has generation %d", f.GroupID, f.Generation)
			}
		}
		for _, s := range w.Cluster(c).Sim.Services() {
			if strings.HasPrefix(s, "before") || strings.HasPrefix(s, "during") {
				t.Errorf("%s is left on the removed cluster", s)
			}
		}
		w.Eventually("nothing is left below its prefix", func() bool { return len(tree(w, c)) == 0 })
	})
}

// TestACreateInFlightEndsWhenItsClusterIsRemoved before anything is torn.
func TestACreateInFlightEndsWhenItsClusterIsRemoved(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		sim := w.Cluster(c).Sim
		if err := sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultLate, Count: 1, Delay: 700 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		outcome := make(chan error, 1)
		go func() {
			_, err := w.Client.CreateService(t.Context(), world.Service(t, body), client.CreateOptions{Wait: limit})
			outcome <- err
		}()
		w.Eventually("the creation is applied", func() bool { return sim.Calls()["create"] > 0 })
		removed(w, c, client.RemoveClusterOptions{})
		if err := <-outcome; codeOf(err) != "replica_failed" || !strings.Contains(err.Error(), "being removed") {
			t.Error(err)
		}
		w.Eventually("nothing is left of it", func() bool { return gone(w) })
	})
}

// A cordoned cluster takes nothing new, keeps what it has, and can be removed.
func TestACordonedClusterTakesNothingNewAndIsRemoved(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		w.Cluster(b).Stop()
		if _, err := w.Client.SetClusterState(t.Context(), b, "cordoned"); err != nil {
			t.Fatal(err)
		}
		other := strings.NewReplacer("grayifyr", "other", "oscar-cluster-c", "oscar-cluster-b").Replace(body)
		other = strings.Replace(other, `,
{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"other2"}`, "", 1)
		if _, err := create(w, other); codeOf(err) != "invalid" {
			t.Errorf("a cordoned cluster took a new service: %v", err)
		}
		// A second member of the same federation is new as well.
		_, err := w.CP.Federations.ChangeReplicas(t.Context(), admin, names[0], federations.ReplicasRequest{
			Add: []oscar.Member{{Type: "oscar", ClusterID: b, ServiceName: "grayifyr9"}},
		})
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != fault.CodeInvalid {
			t.Errorf("a cordoned cluster took a new member: %v", err)
		}
		if _, err := w.Client.SetClusterState(t.Context(), b, "active"); err != nil {
			t.Fatal(err)
		}
		w.Cluster(b).Start()
		w.Eventually("ready again", func() bool { return ready(w) })
		removed(w, b, client.RemoveClusterOptions{})
		if _, err := w.Client.SetClusterState(t.Context(), b, "active"); codeOf(err) != "not_found" {
			t.Error(err)
		}
	})
}

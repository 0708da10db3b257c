package e2e_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// accepting makes a syncer serve the present registration of its cluster.
func accepting(w *world.World, id string) func(*syncer.Config) {
	w.T.Helper()
	v, err := w.Client.Cluster(w.T.Context(), id)
	if err != nil {
		w.T.Fatal(err)
	}
	return func(c *syncer.Config) { c.AcceptClusterUID = v.UID }
}

// TestANewClusterUnderTheOldID: the old machine comes back after another one was
// registered under its id. It touches nothing, and the new one is not touched.
func TestANewClusterUnderTheOldID(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		old := w.Cluster(c)
		away(w, c)
		removed(w, c, client.RemoveClusterOptions{Force: true})
		fresh := w.Machine(c)
		w.Register(fresh)
		// The old one is first: it waits, and says so.
		before := old.Sim.Calls()
		old.Start()
		w.Eventually("the old machine says that it is not meant", func() bool {
			v, err := w.Client.Cluster(t.Context(), c)
			return err == nil && v.Reason == "OtherRegistration" && !v.Alive
		})
		fresh.Start()
		if err := w.CP.Clusters.Await(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		// The same place again, on the new machine.
		if _, err := w.CP.Federations.ChangeReplicas(t.Context(), admin, names[0], federations.ReplicasRequest{
			Add: []oscar.Member{{Type: "oscar", ClusterID: c, ServiceName: names[2]}}, Wait: limit,
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(fresh.Sim.Services(), names[2]) {
			t.Error("the new machine has nothing")
		}
		if v, err := w.Client.Cluster(t.Context(), c); err != nil || !v.Alive || v.Reason != "" {
			t.Errorf("%+v %v", v, err)
		}
		old.Stop()
		if after := old.Sim.Calls(); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("the old machine's OSCAR was asked: %v, before %v", after, before)
		}
		if !slices.Contains(old.Sim.Services(), names[2]) {
			t.Error("the old machine has deleted its service")
		}
	})
}

// TestAnOldMachineThatIsAliveMakesWay: it is removed by force while it runs, and
// another one is registered at once.
func TestAnOldMachineThatIsAliveMakesWay(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		old := w.Cluster(c)
		if err := old.Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpAny, Fault: oscarsim.FaultRefuse}); err != nil {
			t.Fatal(err)
		}
		removed(w, c, client.RemoveClusterOptions{Force: true})
		fresh := w.Machine(c)
		w.Register(fresh)
		old.Sim.ClearFaults()
		fresh.Start()
		if err := w.CP.Clusters.Await(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		w.Eventually("it is the new one that is alive", func() bool {
			v, err := w.Client.Cluster(t.Context(), c)
			return err == nil && v.Alive && v.OscarVersion != ""
		})
		if !slices.Contains(old.Sim.Services(), names[2]) {
			t.Error("the old machine has deleted its service on an order that was gone")
		}
	})
}

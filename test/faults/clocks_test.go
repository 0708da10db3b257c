package faults_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestClocksThatDisagreeByHours: one control plane is five hours ahead of the
// syncers, another one three hours behind them. Skew may move when a creation is
// given up, and never whether it works: creations through both, over OSCARs that take
// their time, succeed, and one that cannot succeed ends.
func TestClocksThatDisagreeByHours(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		skews := []time.Duration{5 * time.Hour, -3 * time.Hour}
		started := 0
		w := newWorld(t, world.Options{
			Sim: func(c *oscarsim.Config) { c.Latency = 300 * time.Millisecond },
			ControlPlane: func(cfg *controlplane.Config) {
				skew := skews[started%len(skews)]
				started++
				cfg.Now = func() time.Time { return time.Now().Add(skew) }
			},
		})
		second := w.ClientOf(w.Serve(w.StartControlPlane("control-plane-1")))
		for i, api := range []*client.Client{w.Client, second, w.Client, second} {
			name := []string{"alpha", "beta"}[i%2]
			if err := createIn(w, api, name); err != nil {
				t.Fatalf("creation %d: %v", i, err)
			}
			stands(w, name, "256Mi")
			if _, err := api.DeleteService(t.Context(), name+"0", client.DeleteOptions{Wait: limit}); err != nil {
				t.Fatal(err)
			}
			isGone(w, name)
		}
		w.Cluster("oscar-cluster-b").Stop()
		for i, api := range []*client.Client{w.Client, second} {
			if code := clientCode(createIn(w, api, "gamma")); code != "unavailable" {
				t.Errorf("through instance %d, with a cluster away: %q", i, code)
			}
		}
	})
}

// TestProcessesWhoseClocksAreADayApart: two control planes and three syncers, each with a
// clock of its own, hours and days away from all others. Creations whose OSCAR dies for
// a moment succeed through both control planes, one that cannot succeed ends, and what a
// key was answered with is not forgotten by the one that is ahead.
func TestProcessesWhoseClocksAreADayApart(t *testing.T) {
	t.Parallel()
	etcd := storetest.Etcd(t)
	invariants.Guard(t, etcd, invariants.Options{Fenced: true, Secrets: []string{"secret-value-of-the-test"}})
	f := federate(t, setup{endpoints: []string{etcd}, store: storetest.Open(t, store.Config{Endpoints: []string{etcd}}), ahead: map[string]time.Duration{
		first: 25 * time.Hour, second: -7 * time.Hour,
		clusterIDs[0]: 5 * time.Hour, clusterIDs[1]: -26 * time.Hour, clusterIDs[2]: 10 * time.Minute,
	}})
	one, other := f.API(first), f.startControlPlane(second)
	for i, api := range []*client.Client{one, other, one, other} {
		f.api, f.key = api, fmt.Sprint("clocks-", i)
		for _, id := range clusterIDs {
			if err := f.Sim(id).SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.Fault500, Count: 1}); err != nil {
				t.Fatal(err)
			}
		}
		f.must(f.create("create"))
		if got := f.present(); !slices.Equal(got, clusterIDs) {
			t.Errorf("creation %d: created on %v only", i, got)
		}
		f.must(f.remove())
		f.quiet()
		f.api = []*client.Client{other, one}[i%2]
		if err := f.create("create"); err != nil {
			t.Errorf("the other instance has another answer to creation %d: %v", i, err)
		}
		if got := f.present(); len(got) > 0 {
			t.Errorf("creation %d was made again, on %v", i, got)
		}
	}
	f.Child(clusterIDs[1]).Kill()
	f.api, f.key = one, "away"
	if got := code(f.create("create")); got != "unavailable" {
		t.Errorf("with a cluster away: %q", got)
	}
}

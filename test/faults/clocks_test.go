package faults_test

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestClocksThatDisagreeByHours: one control plane is five hours ahead of the
// syncers, another one three hours behind them. Skew may move when a creation is
// given up, and never whether it works: creations through both, over OSCARs that take
// their time, succeed, and one that cannot succeed ends.
func TestClocksThatDisagreeByHours(t *testing.T) {
	t.Parallel()
	skews := []time.Duration{5 * time.Hour, -3 * time.Hour}
	started := 0
	w := newWorld(t, world.Options{
		Sim: func(c *oscarsim.Config) { c.Latency = 300 * time.Millisecond },
		ControlPlane: func(cfg *controlplane.Config) {
			skew := skews[started%len(skews)]
			started++
			cfg.Now = func() time.Time { return time.Now().Add(skew) }
			cfg.PrepareDeadline = 5 * time.Second
		},
	})
	second, err := client.New(client.Config{Endpoint: w.Serve(w.StartControlPlane()), User: world.User, Password: world.Password})
	if err != nil {
		t.Fatal(err)
	}
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
}

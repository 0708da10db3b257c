package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestAHundredCreatesAtOnceOverOneOscar: an OSCAR takes one create at a time, and
// seconds for each. None of a hundred is rolled back for waiting. Everything is
// scaled by thirty, to creates of 207 ms, but for the grace: 12 s, less than half
// of what all creates take together, and enough for a slow machine.
func TestAHundredCreatesAtOnceOverOneOscar(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const n = 100
		w := world.New(t, world.Options{
			Wire: wire.New(1), Clusters: []string{a},
			Sim: func(c *oscarsim.Config) {
				c.Latency, c.BreakConcurrent = oscarsim.RealLatency/30, true
			},
			ControlPlane: func(c *controlplane.Config) { c.ApplyGrace, c.PrepareDeadline = 12*time.Second, time.Minute },
			Syncer:       func(c *syncer.Config) { c.Resync = 5 * time.Second },
		})
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				body := fmt.Sprintf(`{"name":"queued%d","image":"ghcr.io/grycap/imagemagick","script":"#!/bin/sh\n"}`, i)
				_, errs[i] = w.Client.CreateService(t.Context(), world.Service(t, body), client.CreateOptions{Wait: limit})
			})
		}
		wg.Wait()
		for i, err := range errs {
			if err != nil {
				t.Errorf("queued%d: %v", i, err)
			}
		}
		if got := len(slices.DeleteFunc(w.Cluster(a).Sim.Services(), func(s string) bool { return !strings.HasPrefix(s, "queued") })); got != n {
			t.Errorf("%d services, want %d", got, n)
		}
		if strings.Contains(w.Log.String(), `"step":"roll_back"`) {
			t.Error("a create was rolled back")
		}
		if calls := w.Cluster(a).Sim.Calls(); calls["create"] != n {
			t.Errorf("%d creates were sent for %d services", calls["create"], n)
		}
	})
}

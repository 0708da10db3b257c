package faults_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestEtcdLosesItsLeaderDuringCreates: of three members the one that leads is gone for
// good while creations are under way. Each has its outcome, at the latest when it is
// asked for again with its key, and is what it says it is.
func TestEtcdLosesItsLeaderDuringCreates(t *testing.T) {
	t.Parallel()
	members := storetest.StartMembers(t, 3)
	w := newWorld(t, world.Options{Endpoints: storetest.Endpoints(members)})
	names := []string{"alpha", "beta", "gamma"}
	var wg sync.WaitGroup
	errs := make([]error, len(names))
	for i, name := range names {
		wg.Go(func() {
			key := fmt.Sprintf("leader-%d", i)
			for range 20 {
				_, errs[i] = w.Client.CreateService(t.Context(), world.Service(t, fdl(name, "256Mi")), client.CreateOptions{IdempotencyKey: key, Wait: limit})
				switch clientCode(errs[i]) {
				case "unavailable", "unknown_outcome":
				default:
					return
				}
			}
		})
		if i == 0 {
			w.Eventually("one is under way", func() bool {
				v, err := w.Client.Federations(t.Context())
				return err == nil && len(v) > 0
			})
		}
	}
	leader := storetest.Leader(t, storetest.Endpoints(members))
	for _, m := range members {
		if m.Endpoint() == leader {
			m.Close()
		}
	}
	wg.Wait()
	for i, name := range names {
		if errs[i] != nil {
			t.Errorf("%s: %v", name, errs[i])
			continue
		}
		stands(w, name, "256Mi")
	}
	if now := storetest.Leader(t, storetest.Endpoints(members)); now == leader || now == "" {
		t.Errorf("%s leads, which was closed", now)
	}
	if roll := strings.Count(w.Log.String(), `"step":"roll_back"`); roll > 0 {
		t.Errorf("%d creations were rolled back", roll)
	}
}

package e2e_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// A change that met a deletion wrote its generation into the federation that was
// being deleted, and gave the tombstones a spec: between the look that found it
// changeable and the one that it was drafted from, it was deleted. The check of the
// promises finds it.
func TestAChangeThatMeetsADeletion(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		net := wire.New(1)
		w := world.New(t, world.Options{Wire: net, Names: []string{"meet"}})
		// What is sent at the same instant arrives in any order.
		net.AddRule(world.HostUsers, world.HostControlPlane, wire.Rule{Jitter: 5 * time.Millisecond})
		const rounds, changers = 15, 4
		changed := 0
		for i := range rounds {
			define := func(version string) *oscar.Service {
				s := world.Service(t, fmt.Sprintf(`{"name":"meet","cluster_id":"oscar-cluster-a","image":"example.org/image",
"script":"#!/bin/sh\n# %s\n","federation":{"topology":"mesh","members":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"meet"}]}}`, version))
				return s
			}
			if _, err := w.Client.CreateService(t.Context(), define("first"), client.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var wg sync.WaitGroup
			for k := range changers {
				wg.Go(func() {
					_, err := w.Client.ChangeService(t.Context(), define(fmt.Sprint(i, k)), client.ChangeOptions{Async: true})
					e, ok := errors.AsType[*client.Error](err)
					switch {
					case err == nil:
						mu.Lock()
						changed++
						mu.Unlock()
					case !ok || e.Code() != v1.CodeNotFound && e.Code() != v1.CodeConflict:
						t.Error(err)
					}
				})
			}
			wg.Go(func() {
				if _, err := w.Client.DeleteService(t.Context(), "meet", client.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			})
			wg.Wait()
			w.Eventually("the deletion is over", func() bool {
				return len(w.Keys(record.FederationsPrefix)) == 0 && !strings.Contains(strings.Join(w.Keys(record.ClusterTreePrefix), " "), "/services/")
			})
		}
		t.Logf("%d of %d changes came before the deletion", changed, rounds*changers)
		if changed == 0 || changed == rounds*changers {
			t.Error("a change and a deletion never met")
		}
	})
}

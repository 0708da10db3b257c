package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/process"
)

// TestThreeMembersTwoControlPlanesBothKindsKilled creates and deletes federations
// through two control planes, one request after another with its own
// Idempotency-Key, while members of etcd and control planes are killed and started
// again. Every request ends with a definite outcome, and the outcome is true.
func TestThreeMembersTwoControlPlanesBothKindsKilled(t *testing.T) {
	t.Parallel()
	etcd := process.StartMembers(t, 3, nil)
	endpoints := strings.Join(etcd.Endpoints(), ",")
	invariants.Guard(t, endpoints, invariants.Options{Fenced: true})
	st := storetest.Open(t, store.Config{Endpoints: etcd.Endpoints()})
	f := federate(t, endpoints, st)
	f.key = "members"
	second, secondAPI := f.instance("")
	apis := &rotating{clients: []*client.Client{f.api, secondAPI}}
	cps := []*process.Child{f.cp, second}

	// At least so many kills of each kind, however long a restart takes here.
	const kills = 4
	var killedEtcd, killedControlPlanes atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() { // the killer
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(700 * time.Millisecond):
			}
			if i%2 == 0 {
				etcd.Kill(i / 2 % 3)
				if err := etcd.Restart(i / 2 % 3); err != nil {
					t.Error(err)
					return
				}
				killedEtcd.Add(1)
				continue
			}
			k := i / 2 % 2
			cps[k].Kill()
			killedControlPlanes.Add(1)
			c, api := f.instance("")
			cps[k] = c
			apis.set(k, api)
		}
	})
	rounds := 0
	for ; killedEtcd.Load() < kills || killedControlPlanes.Load() < kills; rounds++ {
		f.until("create", func(api *client.Client) string {
			return code(createWith(f, api, fmt.Sprintf("round-%d", rounds)))
		}, apis, "")
		if got := f.present(); !slices.Equal(got, clusterIDs) {
			t.Errorf("round %d: created on %v only", rounds, got)
		}
		f.until("delete", func(api *client.Client) string {
			_, err := api.DeleteService(t.Context(), services[0], client.DeleteOptions{Wait: 10 * time.Second})
			return code(err)
		}, apis, "", "not_found")
		f.quiet()
		if got := f.present(); len(got) > 0 {
			t.Errorf("round %d: still on %v", rounds, got)
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d kills of etcd members and %d of control planes during %d creates and deletes",
		killedEtcd.Load(), killedControlPlanes.Load(), rounds)
}

// rotating gives one control plane after another.
type rotating struct {
	mu      sync.Mutex
	clients []*client.Client
	next    int
}

func (r *rotating) get() *client.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	return r.clients[r.next%len(r.clients)]
}

func (r *rotating) set(i int, c *client.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients[i] = c
}

// until repeats a request, as a client does that got no answer, until it has one
// of the wanted codes. Another definite answer is an error.
func (f *federation) until(what string, send func(*client.Client) string, apis *rotating, want ...string) {
	f.t.Helper()
	limit := time.Now().Add(2 * time.Minute)
	for time.Now().Before(limit) {
		got := send(apis.get())
		switch {
		case slices.Contains(want, got):
			return
		case slices.Contains([]string{"none", "unavailable", "unknown_outcome", "internal"}, got):
			select {
			case <-time.After(100 * time.Millisecond):
			case <-f.t.Context().Done():
				return
			}
		default:
			f.t.Fatalf("%s was answered %q", what, got)
		}
	}
	f.t.Fatalf("%s never had an outcome", what)
}

func createWith(f *federation, api *client.Client, key string) error {
	s, violations := oscar.ParseService([]byte(definition))
	if len(violations) > 0 {
		f.t.Fatal(violations)
	}
	_, err := api.CreateService(f.t.Context(), s, client.CreateOptions{IdempotencyKey: f.key + "/" + key, Wait: 20 * time.Second})
	return err
}

package faults_test

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/test/await"
)

// faultEvery is the pause between two faults.
const faultEvery = 700 * time.Millisecond

// again calls harm, with 0, 1, 2 and so on, beside the test until stop is called.
func (f *federation) again(harm func(i int) error) (stop func()) {
	quit, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			case <-time.After(faultEvery):
			}
			if err := harm(i); err != nil {
				f.t.Error(err)
				return
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		close(quit)
		<-stopped
	})
	f.t.Cleanup(stop) // of a test that ended early
	return stop
}

// createAndDelete creates and deletes the federation, one request after another with its
// own Idempotency-Key, until it was enough, and says how often. Every request has a
// definite outcome, and the outcome is true.
func (f *federation) createAndDelete(apis *rotating, enough func() bool) (rounds int) {
	f.t.Helper()
	for ; !enough() && !f.t.Failed(); rounds++ {
		f.until("create", apis, func(api *client.Client) error {
			_, err := api.CreateService(f.t.Context(), f.service(), client.CreateOptions{
				IdempotencyKey: fmt.Sprintf("%s/round-%d", f.key, rounds), Wait: 20 * time.Second,
			})
			return err
		}, "")
		if got := f.present(); !slices.Equal(got, clusterIDs) {
			f.t.Errorf("round %d: created on %v only", rounds, got)
		}
		f.until("delete", apis, func(api *client.Client) error {
			_, err := api.DeleteService(f.t.Context(), services[0], client.DeleteOptions{Wait: 10 * time.Second})
			return err
		}, "", "not_found")
		f.quiet()
		if got := f.present(); len(got) > 0 {
			f.t.Errorf("round %d: still on %v", rounds, got)
		}
	}
	return rounds
}

// rotating gives one control plane after another.
type rotating struct {
	f     *federation
	names []string
	next  int
}

func (r *rotating) get() *client.Client {
	r.next++
	return r.f.API(r.names[r.next%len(r.names)])
}

// until repeats a request, as a client does that got no answer, until it has one
// of the wanted codes. Another definite answer is an error.
func (f *federation) until(what string, apis *rotating, send func(*client.Client) error, want ...string) {
	f.t.Helper()
	await.Until(f.t, "the "+what+" has an outcome", func() bool {
		got := code(send(apis.get()))
		if !slices.Contains(append([]string{noAnswer, "unavailable", "unknown_outcome", "internal"}, want...), got) {
			f.t.Fatalf("%s was answered %q", what, got)
		}
		return slices.Contains(want, got)
	})
}

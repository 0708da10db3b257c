package runs

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/relay"
)

// Invocations of one user leave room for others also where there is no stream, and a slot
// comes back when an answer was read.
func TestInvocationsWithoutAStreamLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	entered, wake := make(chan struct{}, 2*directRuns), make(chan struct{})
	oscar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/sleeps") {
			entered <- struct{}{}
			<-wake
		}
	}))
	t.Cleanup(oscar.Close)
	d := newDirect(nil)
	t.Cleanup(d.close)
	run := func(account, service string) (*http.Response, error) {
		at := target{Replica: relay.Replica{Cluster: "c", Service: service, Account: account}, endpoint: oscar.URL}
		return d.run(t.Context(), at, relay.Invocation{}, relay.ErrNoStream)
	}
	var asleep sync.WaitGroup
	for range directRuns / 2 {
		asleep.Go(func() {
			if resp, err := run("greedy", "sleeps"); err != nil {
				t.Error(err)
			} else {
				_ = resp.Body.Close()
			}
		})
		<-entered
	}
	resp, err := run("greedy", "sleeps")
	if e, ok := errors.AsType[*relay.Error](err); !ok || e.Sent || resp != nil {
		t.Errorf("the user who has half got one more: %v", err)
	}
	for range 2 * directRuns { // more than there are, one after another
		resp, err := run("other", "answers")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	close(wake)
	asleep.Wait()
	if d.slots.mu.Lock(); len(d.slots.of) > 0 {
		t.Errorf("slots are left: %v", d.slots.of)
	}
	d.slots.mu.Unlock()
}

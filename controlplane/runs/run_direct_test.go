package runs

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/internal/share"
	"github.com/oscarfed/oscarfed/test/await"
)

// Invocations without a stream are shared as on one: a user alone has all slots, and the first
// invocation of another one gets the first slot that comes back.
func TestInvocationsWithoutAStreamAreShared(t *testing.T) {
	t.Parallel()
	entered, wake := make(chan string, 2*directRuns), make(chan struct{})
	oscar := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		entered <- r.Header.Get("Ce-Account")
		<-wake
	}))
	t.Cleanup(oscar.Close)
	d := newDirect(nil)
	t.Cleanup(d.close)
	run := func(account string, wait time.Duration) error {
		at := target{Replica: relay.Replica{Cluster: "c", Service: "sleeps", Tenant: share.Tenant{Account: account}, Wait: wait}, endpoint: oscar.URL}
		resp, err := d.run(t.Context(), at, relay.Invocation{Header: http.Header{"Ce-Account": {account}}}, relay.ErrNoStream)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	var asleep sync.WaitGroup
	sleep := func(account string) {
		asleep.Go(func() {
			if err := run(account, time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	for range directRuns {
		sleep("greedy")
		<-entered
	}
	if e, ok := errors.AsType[*relay.Error](run("other", 0)); !ok || e.Sent || e.Word != v1.RelayBusy {
		t.Errorf("there was one more slot: %v", e)
	}
	waiting := func(n int) {
		await.Until(t, "they wait", func() bool {
			d.slots.mu.Lock()
			defer d.slots.mu.Unlock()
			return d.slots.of["c"].users == directRuns+n
		})
	}
	for range 20 {
		sleep("greedy")
	}
	waiting(20)
	sleep("other")
	waiting(21)
	wake <- struct{}{}
	if first := <-entered; first != "other" {
		t.Errorf("the first slot that came back went to %s", first)
	}
	close(wake)
	asleep.Wait()
	d.slots.mu.Lock()
	defer d.slots.mu.Unlock()
	if len(d.slots.of) > 0 {
		t.Errorf("slots are left: %v", d.slots.of)
	}
}

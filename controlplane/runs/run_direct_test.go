package runs

import (
	"errors"
	"fmt"
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

// A cluster that answers an invocation with a status that is none ended the handler by a panic.
func TestAnAnswerWithAStatusThatIsNoneIsNotPassedOn(t *testing.T) {
	t.Parallel()
	oscar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		fmt.Fprintf(conn, "HTTP/1.1 %s x\r\nContent-Length: 0\r\n\r\n", r.Header.Get("Ce-Status"))
	}))
	t.Cleanup(oscar.Close)
	hub, err := relay.New(relay.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := &Controller{relay: hub, direct: newDirect(nil)}
	t.Cleanup(c.Close)
	for status, passed := range map[string]bool{"000": false, "042": false, "200": true, "302": true, "599": true, "600": false, "999": false} {
		at := target{Replica: relay.Replica{Cluster: "c", Service: "s"}, endpoint: oscar.URL}
		resp, err := c.invoke(t.Context(), at, relay.Invocation{Header: http.Header{"Ce-Status": {status}}})
		if err == nil {
			_ = resp.Body.Close()
		}
		if e, ok := errors.AsType[*relay.Error](err); (err == nil) != passed || !passed && (!ok || !e.Sent) {
			t.Errorf("status %s: %v", status, err)
		}
	}
}

// Invocations without a stream are shared as on one: a user alone has all slots that are not kept for others, and
// once those are taken the first invocation of another one gets the first slot that comes back.
func TestInvocationsWithoutAStreamAreShared(t *testing.T) {
	t.Parallel()
	entered, wake := make(chan string, 2*v1.RelayRuns), make(chan struct{})
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
	kept := share.Kept(v1.RelayRuns)
	for range v1.RelayRuns - kept {
		sleep("greedy")
		<-entered
	}
	if e, ok := errors.AsType[*relay.Error](run("greedy", 0)); !ok || e.Sent || e.Word != v1.RelayBusy {
		t.Errorf("it got one that is kept: %v", e)
	}
	for i := range kept {
		sleep(fmt.Sprint("user ", i))
		<-entered
	}
	if e, ok := errors.AsType[*relay.Error](run("other", 0)); !ok || e.Sent || e.Word != v1.RelayBusy {
		t.Errorf("there was one more slot: %v", e)
	}
	waiting := func(n int) {
		await.Until(t, "they wait", func() bool {
			d.slots.mu.Lock()
			defer d.slots.mu.Unlock()
			return d.slots.of["c"].users == v1.RelayRuns+n
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

package kube_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
)

// An API server, or a proxy before it, that asks for an hour's patience is asked again within a minute: a watch waits no
// longer, and so sees what changes when the server is well again.
func TestAnAPIServerIsAskedAgainWithinAMinute(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		n := wire.New(1)
		l, err := n.Host("kubernetes").Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int64
		server := &httptest.Server{Listener: l, Config: &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		})}}
		server.Start()
		client, err := kube.New(&rest.Config{Host: server.URL, Dial: n.Host("syncer").DialContext}, kube.Config{Logger: quiet(t)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() {
			if err := client.Watch(ctx, func(string) {}); err != nil {
				t.Error(err)
			}
		})
		for range 10 {
			before := asked.Load()
			<-time.After(time.Minute) // of the test's clock
			if asked.Load() == before {
				t.Error("a minute went by without a request")
			}
		}
		if asked.Load() > 100 {
			t.Errorf("it was asked %d times within 10 minutes", asked.Load())
		}
		cancel()
		watching.Wait()
		server.CloseClientConnections()
		server.Close()
	})
}

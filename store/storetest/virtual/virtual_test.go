package virtual_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// start starts a server and a client of it.
func start(t *testing.T, cfg embedded.Config) (*embedded.Server, *clientv3.Client) {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	server := virtual.Start(t, l, cfg)
	c, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{server.Endpoint()},
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return server, c
}

// A watch, two thousand transactions, a lease that expires, and a virtual hour.
func TestAServerInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, embedded.Config{})
		ctx, end := context.WithCancel(t.Context())
		events, deleted := 0, false
		watched := make(chan struct{})
		watch := c.Watch(ctx, "a/", clientv3.WithPrefix(), clientv3.WithProgressNotify())
		go func() {
			defer close(watched)
			for r := range watch {
				events += len(r.Events)
				for _, e := range r.Events {
					deleted = deleted || e.Type == clientv3.EventTypeDelete
				}
			}
		}()
		lease, err := c.Grant(ctx, 5)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Put(ctx, "a/leased", "", clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
		for i := range 2000 {
			never := clientv3.Compare(clientv3.ModRevision("a/leased"), "=", 0)
			resp, err := c.Txn(ctx).If(never).Else(clientv3.OpPut(fmt.Sprint("a/", i%500), "")).Commit()
			if err != nil || resp.Succeeded {
				t.Fatal(resp, err)
			}
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if events != 2002 || !deleted {
			t.Errorf("%d events, and the lease has expired: %v", events, deleted)
		}
		end()
		<-watched
	})
}

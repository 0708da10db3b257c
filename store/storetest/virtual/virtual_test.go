package virtual_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store/embedded"
)

// A watch, two thousand transactions, a lease that expires, and a virtual hour.
func TestAServerInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c, _ := server(t, embedded.Config{})
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

// Of two watches that begin in the past one gets all at once, the other more than etcd's batch.
func TestOneOfTwoWatchesIsFarBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c, _ := server(t, embedded.Config{})
		const puts = 1500
		var last int64
		for range puts {
			resp, err := c.Put(t.Context(), "a/x", "")
			if err != nil {
				t.Fatal(err)
			}
			last = resp.Header.Revision
		}
		all := c.Watch(t.Context(), "a/x", clientv3.WithRev(last-puts+1))
		newest := c.Watch(t.Context(), "a/x", clientv3.WithRev(last))
		for events := 0; events < puts; {
			r := <-all
			if err := r.Err(); err != nil {
				t.Fatal(err)
			}
			events += len(r.Events)
		}
		if r := <-newest; len(r.Events) != 1 {
			t.Errorf("%+v", r)
		}
	})
}

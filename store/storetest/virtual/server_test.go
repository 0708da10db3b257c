package virtual_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// address is one at which a server listens in each of its lives.
type address struct {
	mu  sync.Mutex
	now *bufconn.Listener
}

func (a *address) listen() net.Listener {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = bufconn.Listen(1 << 20)
	return a.now
}

func (a *address) dial(ctx context.Context, _ string) (net.Conn, error) {
	a.mu.Lock()
	l := a.now
	a.mu.Unlock()
	return l.DialContext(ctx)
}

// server starts one that can fail, a client and a store.
func server(t *testing.T, cfg embedded.Config) (*virtual.Server, *address, *clientv3.Client, *store.Store) {
	t.Helper()
	a := &address{}
	s := virtual.New(t, a.listen(), cfg)
	dial := []grpc.DialOption{grpc.WithContextDialer(a.dial)}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}, DialOptions: dial, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return s, a, c, storetest.Open(t, store.Config{Endpoints: []string{s.Endpoint()}, DialOptions: dial})
}

func put(t *testing.T, st *store.Store, key string, value int) {
	t.Helper()
	if _, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(key, value)
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
}

func TestAKilledServerKeepsWhatItAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, c, st := server(t, embedded.Config{})
		watch := c.Watch(t.Context(), "/t/", clientv3.WithPrefix())
		lease, err := c.Grant(t.Context(), 3600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Put(t.Context(), "/t/leased", "", clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
		for n := range 10 {
			put(t, st, "/t/a", n)
			s.Kill()
			if _, err := st.Get(t.Context(), "/t/a"); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("read from a killed server: %v", err)
			}
			s.Start(a.listen())
			if kv, err := st.Get(t.Context(), "/t/a"); err != nil || string(kv.Value) != string(rune('0'+n)) {
				t.Errorf("after start %d: %q, %v", n, kv.Value, err)
			}
		}
		for seen := 0; seen < 11; {
			r := <-watch
			if r.Err() != nil {
				t.Fatal(r.Err())
			}
			seen += len(r.Events)
		}
		if _, err := c.Get(t.Context(), "/t/leased"); err != nil {
			t.Error(err)
		}
	})
}

func TestAServerGoesBackToABackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, c, st := server(t, embedded.Config{})
		put(t, st, "/t/kept", 1)
		file := filepath.Join(t.TempDir(), "backup")
		if err := storetest.Snapshot(t.Context(), st, file); err != nil {
			t.Fatal(err)
		}
		put(t, st, "/t/lost", 1)
		for bump, least := range map[bool]int64{false: 2, true: 1_000_000_000} {
			restored := s.Rewind(a.listen(), file, bump)
			resp, err := c.Get(t.Context(), "/t/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Key) != "/t/kept" {
				t.Fatalf("restored: %v, %v", resp, err)
			}
			if r := resp.Header.Revision; r < least || !bump && r != restored.Revision {
				t.Errorf("revision %d of a backup of %d, bump %v", r, restored.Revision, bump)
			}
		}
	})
}

func TestAServerWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, c, _ := server(t, embedded.Config{})
		lease, err := c.Grant(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Put(t.Context(), "/t/leased", "", clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
		demanding := c.Watch(clientv3.WithRequireLeader(t.Context()), "/t/", clientv3.WithPrefix())
		patient := c.Watch(t.Context(), "/t/", clientv3.WithPrefix())
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.Leaderless(t.Context(), time.Minute)
		}()
		<-time.After(time.Second)
		if _, err := c.Get(clientv3.WithRequireLeader(t.Context()), "/t/leased"); !errors.Is(err, rpctypes.ErrNoLeader) {
			t.Errorf("a read that demands a leader: %v", err)
		}
		if resp, err := c.Get(t.Context(), "/t/leased", clientv3.WithSerializable()); err != nil || len(resp.Kvs) != 1 {
			t.Errorf("a serializable read: %v, %v", resp, err)
		}
		var why error
		for r := range demanding {
			why = r.Err()
		}
		if !errors.Is(why, rpctypes.ErrNoLeader) {
			t.Errorf("the watch that demands a leader ended with: %v", why)
		}
		<-over
		// The lease begins anew with the new leader.
		began := time.Now()
		if resp, err := c.Get(t.Context(), "/t/leased"); err != nil || len(resp.Kvs) != 1 {
			t.Errorf("after a minute without a leader: %v, %v", resp, err)
		}
		if r := <-patient; len(r.Events) != 1 || r.Events[0].Type != clientv3.EventTypeDelete {
			t.Errorf("the other watch: %+v", r)
		}
		if took := time.Since(began); took < 5*time.Second || took > 15*time.Second {
			t.Errorf("the lease expired after %v", took)
		}
	})
}

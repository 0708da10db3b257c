package syncer_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// cut is a connection to etcd that can be taken away.
type cut struct {
	store *store.Store

	mu    sync.Mutex
	gone  bool
	conns map[net.Conn]struct{}
}

// cutable opens a store whose connections are ours to cut.
func (r *rig) cutable() *cut {
	c := &cut{conns: map[net.Conn]struct{}{}}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.gone {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(address, "http://"))
		if err == nil {
			c.conns[conn] = struct{}{}
		}
		return conn, err
	}
	c.store = storetest.Open(r.t, store.Config{
		Endpoints: []string{r.endpoint}, Logger: quiet(r.t),
		RequestTimeout: 200 * time.Millisecond, Deadline: 500 * time.Millisecond,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(dial)},
	})
	return c
}

func (c *cut) away() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for conn := range c.conns {
		conn.Close()
	}
	clear(c.conns)
}

func (c *cut) back() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = false
}

package syncer_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
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
		_ = conn.Close()
	}
	clear(c.conns)
}

func (c *cut) back() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = false
}

// machine is a connection to etcd of a machine that can fall asleep: from then
// on it hears and says nothing, until it wakes up.
type machine struct {
	store  *store.Store
	asleep chan struct{}

	mu     sync.Mutex
	armed  bool
	frozen bool
	awake  chan struct{}
	once   sync.Once
}

// freezable opens a store on a machine that falls asleep, once armed, with the
// answer to the next read of a syncer's records in its hands.
func (r *rig) freezable() *machine {
	m := &machine{asleep: make(chan struct{}), awake: make(chan struct{})}
	unary := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		m.wait()
		err := invoke(ctx, method, req, reply, cc, opts...)
		if txn, ok := req.(*etcdserverpb.TxnRequest); ok && len(txn.Compare) == 0 && len(txn.Success) == 4 {
			m.freeze()
		}
		m.wait()
		return err
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		m.wait()
		return open(ctx, desc, cc, method, opts...)
	}
	m.store = storetest.Open(r.t, store.Config{
		Endpoints: []string{r.endpoint}, Logger: quiet(r.t),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)},
	})
	return m
}

func (m *machine) arm() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.armed = true
}

func (m *machine) freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.armed && !m.frozen {
		m.frozen = true
		close(m.asleep)
	}
}

// wait blocks a machine that sleeps.
func (m *machine) wait() {
	m.mu.Lock()
	frozen := m.frozen
	m.mu.Unlock()
	if frozen {
		<-m.awake
	}
}

func (m *machine) wake() { m.once.Do(func() { close(m.awake) }) }

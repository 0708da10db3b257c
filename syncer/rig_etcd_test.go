package syncer_test

import (
	"context"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/test/wire"
)

// etcdGone resets the syncer's connections to etcd and refuses others, until back is called.
func (r *rig) etcdGone() (back func()) {
	there := r.net.AddRule("syncer", "etcd", wire.Rule{Refuse: 1, Break: 1})
	here := r.net.AddRule("etcd", "syncer", wire.Rule{Break: 1})
	return func() {
		there()
		here()
	}
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
	m.store = r.open("syncer", store.Config{
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

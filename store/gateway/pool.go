package gateway

import (
	"fmt"
	"math"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/store"
)

// pool holds one client of etcd for each connected user. Each finds a member that works by itself,
// and shows a certificate of that user's name.
type pool struct {
	cfg Config

	mu      sync.Mutex
	clients map[string]*clientv3.Client
	closed  bool
}

func newPool(cfg Config) *pool { return &pool{cfg: cfg, clients: map[string]*clientv3.Client{}} }

// as is the client of a user, made when it is asked for.
func (p *pool) as(user string) (*clientv3.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if client := p.clients[user]; client != nil {
		return client, nil
	}
	if p.closed {
		return nil, store.ErrUnavailable
	}
	conf := p.cfg.Etcd
	conf.CertFile, conf.KeyFile, conf.Certificate, conf.Logger = "", "", p.cfg.As(user), p.cfg.Logger
	conf.DialOptions = append(conf.DialOptions, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	client, err := store.Dial(conf)
	if err != nil {
		return nil, fmt.Errorf("etcd as %s: %w", user, err)
	}
	p.clients[user] = client
	return client, nil
}

// drop ends the clients of users that are not kept.
func (p *pool) drop(keep func(user string) bool) {
	p.mu.Lock()
	var gone []*clientv3.Client
	for user, client := range p.clients {
		if !keep(user) {
			gone = append(gone, client)
			delete(p.clients, user)
		}
	}
	p.mu.Unlock()
	for _, client := range gone {
		_ = client.Close() // what is under way on it is told so
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop(func(string) bool { return false })
}

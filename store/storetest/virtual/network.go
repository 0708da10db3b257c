package virtual

import (
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/wire"
)

// Network is a network in memory with an etcd server on it.
type Network struct {
	*wire.Network
	Etcd *embedded.Server
}

// NewNetwork makes a network, inside a bubble, and starts a server on its host "etcd". The end of
// the test closes both.
func NewNetwork(t testing.TB, cfg embedded.Config) *Network {
	t.Helper()
	n := &Network{Network: wire.ForTest(t)}
	n.Etcd = Start(t, n.Host("etcd").MustListen(t), cfg)
	return n
}

// Reach sets how a host reaches the server.
func (n *Network) Reach(host string, cfg *store.Config) {
	cfg.Endpoints = []string{n.Etcd.Endpoint()}
	cfg.DialOptions = append(cfg.DialOptions, n.Host(host).DialOption())
}

// Open connects a store of a host to the server. The end of the test closes it.
func (n *Network) Open(t testing.TB, host string, cfg store.Config) *store.Store {
	t.Helper()
	n.Reach(host, &cfg)
	return storetest.Open(t, cfg)
}

// Open connects a store to a server of its own.
func Open(t testing.TB) *store.Store {
	t.Helper()
	return NewNetwork(t, embedded.Config{}).Open(t, "test", store.Config{})
}

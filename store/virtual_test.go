package store_test

import (
	"testing"
	"testing/synctest"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// inVirtualTime runs a test in a bubble, with a server on the host "etcd" of a network in memory.
func inVirtualTime(t *testing.T, cfg embedded.Config, test func(t *testing.T, n *virtual.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, virtual.NewNetwork(t, cfg)) })
}

// openOn is open for a host of a network.
func openOn(t *testing.T, n *virtual.Network, host string, cfg store.Config) (*store.Store, *storetest.Faults) {
	t.Helper()
	n.Reach(host, &cfg)
	return open(t, cfg)
}

// rawOn is a client for what the store itself never does.
func rawOn(t *testing.T, n *virtual.Network) *clientv3.Client {
	t.Helper()
	var cfg store.Config
	n.Reach("raw", &cfg)
	c, err := store.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

package world

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/test/await"
)

// World is a federation under test.
type World struct {
	T testing.TB
	// Etcd is its endpoint; several have commas between them.
	Etcd string
	// EtcdDir holds etcd's database and write-ahead log.
	EtcdDir string
	// Server is etcd; nil when Endpoints were given.
	Server *embedded.Server
	// virtualEtcd is the same in virtual time.
	virtualEtcd *virtual.Server
	// restored says that it was put back to a backup.
	restored bool
	Store    *store.Store
	API      string
	// CA is what a client of the API has to trust, in PEM; nil without Options.TLS.
	CA       []byte
	Client   *client.Client
	Log      *Log
	CP       *controlplane.ControlPlane
	clusters map[string]*Cluster
	identity *seal.Identity
	opts     Options
	// mu guards instances and addresses: several control planes may be started at the same time.
	mu sync.Mutex
	// instances are all control planes that were started.
	instances map[*controlplane.ControlPlane]instance
	// addresses are those of the APIs, by the host of the control plane.
	addresses map[string]string
	// ctx is that of all that runs.
	ctx context.Context
	// transport reaches the API and the OSCARs.
	transport *http.Transport
	// proxy stands before etcd in a restorable world on the loopback, and witness is the file of the
	// first control plane.
	proxy   *storetest.Proxy
	witness string
	front   *front
	// users is nil unless the world is guarded.
	users *users
}

// New starts a world and waits until every cluster can be placed on.
func New(t testing.TB, opts Options) *World {
	t.Helper()
	opts = opts.withDefaults()
	w := &World{T: t, Log: &Log{}, clusters: map[string]*Cluster{}, opts: opts, instances: map[*controlplane.ControlPlane]instance{}, addresses: map[string]string{}}
	// The world ends after the test's own clean-ups, which still use it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	t.Cleanup(func() {
		if t.Failed() {
			w.Log.tell(t)
		}
	})
	if opts.Wire != nil {
		w.startWire()
	}
	w.ctx, w.transport = ctx, NewLink(w.at(HostUsers)).transport()
	t.Cleanup(w.transport.CloseIdleConnections)
	w.startEtcd()
	w.front = newFront(w)
	w.witness = filepath.Join(t.TempDir(), "witness.json")
	if opts.IdentityFile == "" {
		w.identity = Must(seal.Generate())(t)
	} else {
		w.identity = Must(seal.LoadOrCreate(opts.IdentityFile))(t)
	}
	w.Restart()
	w.startClusters()
	return w
}

// Cluster gives one by its id.
func (w *World) Cluster(id string) *Cluster { return w.clusters[id] }

// Eventually waits until ok is true, and fails the test when it never is.
func (w *World) Eventually(what string, ok func() bool) {
	w.T.Helper()
	await.Until(w.T, what, ok)
}

// Keys lists the keys below a prefix.
func (w *World) Keys(prefix string) []string {
	w.T.Helper()
	items, err := w.Store.ListKeys(w.T.Context(), prefix)
	if err != nil {
		w.T.Fatal(err)
	}
	out := []string{}
	for _, kv := range items {
		out = append(out, kv.Key)
	}
	return out
}

// Revision is the store's newest.
func (w *World) Revision() int64 {
	w.T.Helper()
	v, err := w.Store.Read(w.T.Context(), record.MetaKey)
	if err != nil {
		w.T.Fatal(err)
	}
	return v.Revision
}

// Must gives a value whose error is nil, and fails the test otherwise.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

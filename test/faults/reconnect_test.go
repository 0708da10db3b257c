package faults_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestAllSyncersReconnectAtOnce is the form of "a thousand syncers reconnecting at
// once" that fits into a test: every link to etcd is frozen until the last session has
// ended, then all come back together. They compare, find nothing to do, and write
// nothing to any OSCAR.
func TestAllSyncersReconnectAtOnce(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		ids := append([]string{}, clusterIDs...)
		for i := range 9 {
			ids = append(ids, fmt.Sprintf("oscar-cluster-%c", 'd'+i))
		}
		net := wire.New(1)
		w := newWorld(t, world.Options{Wire: net, Clusters: ids})
		for _, name := range []string{"alpha", "beta", "gamma"} {
			mustCreate(w, name)
		}
		before := writes(w, ids...)
		sessions := func() (n int) {
			for _, id := range ids {
				if _, err := w.Store.Get(t.Context(), record.SessionKey(id)); err == nil {
					n++
				}
			}
			return n
		}
		heal := net.Cut("syncer-*", world.HostEtcd)
		w.Eventually("every session has ended", func() bool { return sessions() == 0 })
		heal()
		w.Eventually("all are back", func() bool { return sessions() == len(ids) })
		for _, name := range []string{"alpha", "beta", "gamma"} {
			stands(w, name, "256Mi")
		}
		if now := writes(w, ids...); !maps.Equal(now, before) {
			t.Errorf("something was written to OSCARs: %v after %v", now, before)
		}
	})
}

// TestAKilledSyncerStartsAgainAtOnce: it does not wait until the session of the process before has run out.
func TestAKilledSyncerStartsAgainAtOnce(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	id := clusterIDs[1]
	session := func() int64 {
		kv, err := f.store.Get(t.Context(), record.SessionKey(id))
		if err != nil {
			return 0
		}
		return kv.CreateRevision
	}
	for range 3 {
		before := session()
		f.Child(id).Kill()
		f.must(f.StartSyncer(id, "", "--session-ttl=1h", "--late-window=1h"))
		f.eventually("it has a session again", func() bool { return session() > before })
	}
	f.must(f.create("after the kills"))
	f.must(f.remove())
	f.quiet()
}

package world

import (
	"net/url"
	"path/filepath"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// Backup writes what etcd holds to a file, and returns its path.
func (w *World) Backup() string {
	w.T.Helper()
	path := filepath.Join(w.T.TempDir(), "backup.db")
	if err := storetest.Snapshot(w.T.Context(), w.Store, path); err != nil {
		w.T.Fatal(err)
	}
	return path
}

// RestartEtcd stops etcd and starts it again where it was. The world must be
// Restorable, and not restored yet.
func (w *World) RestartEtcd() {
	w.T.Helper()
	if w.virtual() {
		w.KillEtcd()
		w.StartEtcd()
		return
	}
	u := Must(url.Parse(w.Server.Endpoint()))(w.T)
	w.Server.Close()
	etcd := embedded.Config{Dir: w.EtcdDir, Logger: storetest.Logger(w.T)}
	if w.opts.Etcd != nil {
		w.opts.Etcd(&etcd)
	}
	etcd.ListenClient, etcd.Fast, etcd.NoFsync = u.Host, true, true
	// It is closed in the place of the first one: after everything is checked.
	w.Server = Must(embedded.Start(w.T.Context(), etcd))(w.T)
}

// RestoreEtcd puts an etcd that was restored from a backup in the place of the
// present one, while everybody else goes on. Nothing in it is changed: as if an
// administrator had used etcd's own tools, with or without raising the revisions.
// The world must be Restorable.
func (w *World) RestoreEtcd(backup string, bump bool) {
	w.T.Helper()
	if w.virtual() {
		w.rewindEtcd(backup, bump)
		return
	}
	dir := filepath.Join(w.T.TempDir(), "etcd")
	_, err := embedded.Restore(embedded.RestoreConfig{Backup: backup, Dir: dir, KeepRevisions: !bump, Logger: storetest.Logger(w.T)})
	if err != nil {
		w.T.Fatal(err)
	}
	endpoint := storetest.Start(w.T, embedded.Config{Dir: dir}).Endpoint()
	w.EtcdDir = dir
	w.Store = storetest.Open(w.T, store.Config{Endpoints: []string{endpoint}})
	if !w.opts.Unguarded {
		invariants.GuardRestored(w.T, endpoint, invariants.Options{Fenced: true, Secrets: w.opts.Secrets})
	}
	w.proxy.Retarget(endpoint)
}

// rewindEtcd is RestoreEtcd in virtual time. The etcd that is killed is asked for its
// history first, by a server over its data that nobody else knows; one that was restored itself
// does not have the whole of it.
func (w *World) rewindEtcd(backup string, bump bool) {
	w.T.Helper()
	w.KillEtcd()
	if !w.opts.Unguarded && !w.restored {
		before := virtual.New(w.T, w.listener(HostEtcd, ""), embedded.Config{Dir: w.EtcdDir})
		w.check(before.Endpoint())
		before.Close()
	}
	w.restored = true
	w.virtualEtcd.Rewind(w.listener(HostEtcd, w.etcdAddress()), backup, bump)
	w.Server = w.virtualEtcd.Server
	w.EtcdDir = w.virtualEtcd.Dir()
	w.Store = storetest.Open(w.T, w.As(access.Root))
	if !w.opts.Unguarded {
		invariants.GuardRestored(w.T, w.Etcd, w.promises())
	}
}

// Rewind puts an etcd that was restored from a backup, with raised revisions, in the place of the one of
// a world in virtual time, whose test checks the promises itself. Before that it shows what the etcd
// had, when it is killed already.
func (w *World) Rewind(backup string, before func(*store.Store)) {
	w.T.Helper()
	w.KillEtcd()
	old := virtual.New(w.T, w.listener(HostEtcd, ""), embedded.Config{Dir: w.EtcdDir})
	cfg := store.Config{Endpoints: []string{old.Endpoint()}}
	NewLink(w.at(HostUsers)).carry(&cfg)
	shown := Must(store.Open(w.T.Context(), cfg))(w.T)
	before(shown)
	if err := shown.Close(); err != nil {
		w.T.Error(err)
	}
	old.Close()
	w.virtualEtcd.Rewind(w.listener(HostEtcd, w.etcdAddress()), backup, true)
	w.Server, w.EtcdDir = w.virtualEtcd.Server, w.virtualEtcd.Dir()
}

// Changes counts the requests that would change something on a cluster, and came.
func (c *Cluster) Changes() int { return len(c.Sim.Log()) }

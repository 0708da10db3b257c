package world

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// startEtcd starts the store, unless it runs already, with what guards its history.
func (w *World) startEtcd() {
	w.T.Helper()
	cfg := embedded.Config{Dir: w.etcdDir()}
	w.EtcdDir = cfg.Dir
	if w.opts.Etcd != nil {
		w.opts.Etcd(&cfg)
	}
	if w.opts.Guarded {
		w.users = newUsers(w.T)
		w.users.enter(&cfg)
	}
	if len(w.opts.Endpoints) == 0 {
		w.Server = w.etcd(cfg)
		w.T.Cleanup(func() { w.Server.Close() }) // which may be another one by then
		w.opts.Endpoints = []string{w.Server.Endpoint()}
	}
	w.Etcd = strings.Join(w.opts.Endpoints, ",")
	w.Store = storetest.Open(w.T, w.As(access.Root))
	if w.opts.Guarded {
		if err := access.New(w.Store).SetUp(w.T.Context()); err != nil {
			w.T.Fatal(err)
		}
	}
	w.guard()
	if w.opts.Restorable && !w.virtual() {
		w.proxy = storetest.NewProxy(w.T, w.Etcd)
		w.Etcd = w.proxy.Endpoint()
		w.opts.Endpoints = []string{w.Etcd}
	}
}

// virtual says whether the world has a network of its own, and so an etcd of virtual time.
func (w *World) virtual() bool { return w.opts.Wire != nil }

// etcdDir is where etcd's data goes.
func (w *World) etcdDir() string {
	if w.virtual() {
		return virtual.Dir(w.T)
	}
	return filepath.Join(w.T.TempDir(), "etcd")
}

// etcd starts an etcd on the world's network.
func (w *World) etcd(cfg embedded.Config) *embedded.Server {
	w.T.Helper()
	if w.virtual() {
		w.virtualEtcd = virtual.New(w.T, w.listener(HostEtcd, ""), cfg)
		return w.virtualEtcd.Server
	}
	return storetest.Start(w.T, cfg)
}

// guard has the promises checked at every revision, when all that is started later has
// stopped.
func (w *World) guard() {
	w.T.Helper()
	if w.opts.Unguarded {
		return
	}
	switch {
	case w.opts.Forgets:
		invariants.GuardLive(w.T, w.Etcd, w.promises())
	case w.virtual() && w.opts.Restorable:
		w.T.Cleanup(func() {
			if !w.restored {
				w.check(w.Etcd)
			}
		})
	default:
		invariants.Guard(w.T, w.Etcd, w.promises())
	}
}

// promises are what is checked.
func (w *World) promises() invariants.Options {
	return invariants.Options{
		Fenced: true, Secrets: w.opts.Secrets, Breaks: w.opts.Breaks,
		Connect: func(c *store.Config) {
			NewLink(w.at(HostUsers)).carry(c)
			w.users.certify(c, access.Root)
		},
	}
}

// check checks the promises now.
func (w *World) check(endpoint string) {
	w.T.Helper()
	Must(invariants.Check(context.WithoutCancel(w.T.Context()), endpoint, w.promises()))(w.T).Tell(w.T)
}

// KillEtcd ends the etcd of a world in virtual time, as SIGKILL does.
func (w *World) KillEtcd() {
	w.killHost(HostEtcd)
	w.virtualEtcd.Kill()
}

// etcdAddress is where the etcd of a world in virtual time listens, however often it was
// started.
func (w *World) etcdAddress() string { return Must(url.Parse(w.Etcd))(w.T).Host }

// StartEtcd starts it again.
func (w *World) StartEtcd() {
	w.T.Helper()
	w.virtualEtcd.Start(w.listener(HostEtcd, w.etcdAddress()))
	w.Server = w.virtualEtcd.Server
}

// Leaderless keeps the etcd of a world in virtual time without a leader for some time, or until ctx
// ends. Nobody may stop it meanwhile.
func (w *World) Leaderless(ctx context.Context, d time.Duration) { w.virtualEtcd.Leaderless(ctx, d) }

// As is how a user of etcd reaches it from the users' host; where it has no users, anybody.
func (w *World) As(user string) store.Config { return w.as(user, NewLink(w.at(HostUsers))) }

// open connects a part of the world to etcd. In virtual time it waits for one that is away, as what
// starts programs does.
func (w *World) open(cfg store.Config) *store.Store {
	w.T.Helper()
	for w.virtual() {
		conn, err := store.Open(w.ctx, cfg)
		if err == nil {
			return storetest.Owned(w.T, conn)
		}
		if !errors.Is(err, store.ErrUnavailable) || w.ctx.Err() != nil {
			w.T.Fatal(err)
		}
	}
	return storetest.Open(w.T, cfg)
}

// as is how a user of etcd reaches it through a link.
func (w *World) as(user string, link *Link) store.Config {
	cfg := store.Config{Endpoints: w.opts.Endpoints}
	link.carry(&cfg)
	w.users.certify(&cfg, user)
	return cfg
}

package boot

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
)

func startEmbedded(t *testing.T, dir string, auth bool) *etcd {
	t.Helper()
	out, err := embeddedEtcd{
		dataDir: dir, auth: auth, log: storetest.Logger(t),
		server: embedded.Config{ListenClient: "127.0.0.1:0", Fast: true, NoFsync: true},
	}.start(t.Context(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.close)
	return out
}

func connect(t *testing.T, open func(context.Context) (*store.Store, error)) *store.Store {
	t.Helper()
	st, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(st, storetest.Logger(t)) })
	return st
}

func mark(t *testing.T, st *store.Store, key string) error {
	t.Helper()
	_, err := st.Update(t.Context(), store.Update{Keys: []string{key}, Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(key, map[string]int{"v": 1})
		return nil
	}})
	return err
}

// What was there before is there still, the control plane reads and writes it, and a client
// without a certificate can do nothing any more.
func TestAnEtcdThatWasUsedWithoutUsersGetsThem(t *testing.T) {
	dir := t.TempDir()
	open := startEmbedded(t, dir, false)
	st := connect(t, open.open)
	if err := mark(t, st, record.ClusterKey("oscar-cluster-a")); err != nil {
		t.Fatal(err)
	}
	open.close()

	guarded := startEmbedded(t, dir, true)
	cp := connect(t, guarded.open)
	if v, err := cp.Read(t.Context(), record.ClusterKey("oscar-cluster-a")); err != nil {
		t.Error(err)
	} else if _, ok := v.KV(record.ClusterKey("oscar-cluster-a")); !ok {
		t.Error("what was written before is gone")
	}
	if err := mark(t, cp, record.MetaKey); err != nil {
		t.Errorf("the control plane does not write: %v", err)
	}
	if err := mark(t, cp, "/elsewhere/x"); !errors.Is(err, store.ErrDenied) {
		t.Errorf("the control plane writes outside of its prefix: %v", err)
	}
	plain := guarded.plain
	plain.CAFile, plain.Deadline = filepath.Join(pkiDir(dir), "ca.crt"), 1
	if st, err := store.Open(t.Context(), plain); err == nil {
		t.Error("somebody without a certificate was let in")
		closeStore(st, storetest.Logger(t))
	}
}

// A set-up that ended after any of its steps is completed by the next start.
func TestASetUpThatWasCutOffIsDoneAgain(t *testing.T) {
	for _, steps := range []int{0, 1, 2, 3, 4, 5} {
		dir := t.TempDir()
		first := startEmbedded(t, dir, true)
		auth := connect(t, first.users.root).Auth()
		// Backwards, to what stood when the process died after some steps.
		undo := []func() error{
			func() error { _, err := auth.AuthDisable(t.Context()); return err },
			func() error {
				_, err := auth.UserRevokeRole(t.Context(), access.ControlPlane, access.ControlPlane)
				return err
			},
			func() error { _, err := auth.UserDelete(t.Context(), access.ControlPlane); return err },
			func() error { _, err := auth.RoleDelete(t.Context(), access.ControlPlane); return err },
			func() error { _, err := auth.UserDelete(t.Context(), access.Root); return err },
		}
		for _, step := range undo[:steps] {
			if err := step(); err != nil {
				t.Fatalf("undo of %d steps: %v", steps, err)
			}
		}
		first.close()
		again := startEmbedded(t, dir, true)
		users, err := access.New(connect(t, again.users.root)).Users(t.Context())
		if err != nil || !slices.Equal(users, []string{access.ControlPlane, access.Root}) {
			t.Errorf("after %d steps backwards the users are %v, %v", steps, users, err)
		}
		if err := mark(t, connect(t, again.open), record.MetaKey); err != nil {
			t.Errorf("after %d steps backwards: %v", steps, err)
		}
		again.close()
	}
}

// Authentication that is off lets in root alone: the others could do everything.
func TestOnlyRootIsLetInWhileAuthenticationIsOff(t *testing.T) {
	e := startEmbedded(t, t.TempDir(), true)
	if _, err := connect(t, e.users.root).Auth().AuthDisable(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := e.users.config(access.ControlPlane, everydayLife)
	cfg.Deadline = 1 // one try
	if st, err := store.Open(t.Context(), cfg); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the control plane was let in: %v", err)
		if err == nil {
			closeStore(st, storetest.Logger(t))
		}
	}
	if err := e.users.setUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	connect(t, e.open)
}

func TestServerHosts(t *testing.T) {
	for listen, want := range map[string][]string{
		"127.0.0.1:2379": {"127.0.0.1", "::1", "etcd.example.org", "etcd.inside.svc", "localhost"},
		"0.0.0.0:2379":   {"127.0.0.1", "::1", "etcd.example.org", "etcd.inside.svc", "localhost"},
		"[::]:2379":      {"127.0.0.1", "::1", "etcd.example.org", "etcd.inside.svc", "localhost"},
		"10.0.0.7:2379":  {"10.0.0.7", "127.0.0.1", "::1", "etcd.example.org", "etcd.inside.svc", "localhost"},
	} {
		got := serverHosts(embedded.Config{ListenClient: listen, AdvertiseClient: []string{"https://etcd.example.org:2379"}}, []string{"etcd.inside.svc"})
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v", listen, got)
		}
	}
	for endpoint, want := range map[string]string{
		"https://0.0.0.0:2379": "https://127.0.0.1:2379", "https://[::]:2379": "https://127.0.0.1:2379", "https://10.0.0.7:2379": "https://10.0.0.7:2379",
	} {
		if got := reachable(endpoint); got != want {
			t.Errorf("%s is reached at %s", endpoint, got)
		}
	}
}

func TestEtcdIsGuardedBeyondLoopback(t *testing.T) {
	for listen, want := range map[string]bool{"127.0.0.1:2379": false, "localhost:0": false, "[::1]:0": false, "0.0.0.0:2379": true, ":2379": true, "10.0.0.7:2379": true} {
		if got := (embeddedEtcd{server: embedded.Config{ListenClient: listen}}).guarded(); got != want {
			t.Errorf("%s: guarded is %v", listen, got)
		}
	}
}

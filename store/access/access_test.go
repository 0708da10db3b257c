package access_test

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
)

const (
	clusterA, clusterB = "oscar-cluster-a", "oscar-cluster-b"
	uidA, uidB         = "0199c3a2-0000-7000-8000-0000000000a0", "0199c3a2-0000-7000-8000-0000000000b0"
)

// guarded is an etcd with authentication, with two clusters.
type guarded struct {
	t testing.TB
	// endpoint is etcd's own; gateway, when it is not empty, is the clusters'.
	endpoint, gateway string
	authority         *storetest.Authority
	admin             *access.Admin
	// controlPlane is connected as such.
	controlPlane *store.Store
}

func guard(t testing.TB) *guarded {
	t.Helper()
	authority := storetest.NewAuthority(t)
	cert, key := authority.Issue("") // a server is no user
	server := storetest.Start(t, embedded.Config{
		Dir: filepath.Join(t.TempDir(), "etcd"), ListenClient: "127.0.0.1:0", Fast: true, NoFsync: true,
		CertFile: cert, KeyFile: key, CAFile: authority.CAFile, Guarded: true, Trusted: []string{access.ControlPlane},
	})
	g := &guarded{t: t, endpoint: server.Endpoint(), authority: authority}
	for range 2 { // a set-up that was cut off is done again
		g.setUp()
	}
	g.controlPlane = g.open(access.ControlPlane)
	g.admit(clusterA, uidA)
	g.admit(clusterB, uidB)
	return g
}

// clientEndpoint is where clusters connect.
func (g *guarded) clientEndpoint() string {
	if g.gateway != "" {
		return g.gateway
	}
	return g.endpoint
}

// reached is where a user connects.
func (g *guarded) reached(user string) string {
	if _, ok := access.LifeOf(user); ok {
		return g.clientEndpoint()
	}
	return g.endpoint
}

func (g *guarded) open(user string) *store.Store {
	g.t.Helper()
	cert, key := g.authority.Issue(user)
	return storetest.Open(g.t, store.Config{Endpoints: []string{g.reached(user)}, CertFile: cert, KeyFile: key, CAFile: g.authority.CAFile})
}

// setUp switches authentication on. That changes the rights of root, so that the server ends
// the connections that root had before.
func (g *guarded) setUp() {
	g.t.Helper()
	if err := access.New(g.open(access.Root)).SetUp(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
	g.admin = access.New(g.open(access.Root))
}

// The server ends root's connections when the rights of root change, and may do so before it has
// answered what changed them.
func TestUsersAreSetUpOverConnectionsThatEnd(t *testing.T) {
	authority := storetest.NewAuthority(t)
	cert, key := authority.Issue("")
	server := storetest.Start(t, embedded.Config{
		Dir: filepath.Join(t.TempDir(), "etcd"), ListenClient: "127.0.0.1:0", Fast: true, NoFsync: true,
		CertFile: cert, KeyFile: key, CAFile: authority.CAFile, Guarded: true, Trusted: []string{access.ControlPlane},
	})
	proxy := storetest.NewProxy(t, server.Endpoint())
	cert, key = authority.Issue(access.Root)
	admin := access.New(storetest.Open(t, store.Config{Endpoints: []string{proxy.Endpoint()}, CertFile: cert, KeyFile: key, CAFile: authority.CAFile}))
	ctx, cancel := context.WithCancel(t.Context())
	var cutting sync.WaitGroup
	defer cutting.Wait()
	defer cancel()
	cutting.Go(func() {
		for range 50 {
			select {
			case <-time.After(2 * time.Millisecond):
				proxy.Cut()
			case <-ctx.Done():
			}
		}
	})
	if err := admin.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := admin.Admit(t.Context(), clusterA, uidA); err != nil {
		t.Fatal(err)
	}
	if on, err := admin.Enabled(t.Context()); err != nil || !on {
		t.Errorf("authentication is on: %v, %v", on, err)
	}
}

func (g *guarded) admit(cluster, uid string) {
	g.t.Helper()
	if err := g.admin.Admit(g.t.Context(), cluster, uid); err != nil {
		g.t.Fatal(err)
	}
}

func put(t testing.TB, s *store.Store, key string) error {
	t.Helper()
	_, err := s.Update(t.Context(), store.Update{Keys: []string{key}, Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(key, rand.Text()) // equal bytes would not be written
		return nil
	}})
	return err
}

func TestRights(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		syncer := g.open(access.Syncer(clusterA, uidA))
		stranger := g.open("somebody")
		keys := map[string]string{
			"own desired":      record.DesiredServiceKey(clusterA, "svc"),
			"own spec":         record.SpecKey(clusterA, "svc/uid.1"),
			"own observed":     record.ObservedServiceKey(clusterA, "svc"),
			"own session":      record.SessionKey(clusterA),
			"other's desired":  record.DesiredServiceKey(clusterB, "svc"),
			"other's observed": record.ObservedServiceKey(clusterB, "svc"),
			"other's session":  record.SessionKey(clusterB),
			"longer id":        record.ObservedServiceKey(clusterA+"0", "svc"),
			"meta":             record.MetaKey,
			"federation":       record.FederationKey("uid"),
		}
		outside := "/registry/secrets/x"
		if err := put(t, g.controlPlane, outside); !errors.Is(err, store.ErrDenied) {
			t.Errorf("the control plane writes outside of its prefix: %v", err)
		}
		for name, key := range keys {
			// Written by the control plane, so that a read could find something.
			if err := put(t, g.controlPlane, key); err != nil {
				t.Fatalf("%s: the control plane: %v", name, err)
			}
			own := slices.Contains([]string{"own desired", "own spec", "own observed", "own session"}, name)
			writable := name == "own observed" || name == "own session"
			_, err := syncer.Read(t.Context(), key)
			if own != (err == nil) || !own && !errors.Is(err, store.ErrDenied) {
				t.Errorf("%s: read by the syncer: %v", name, err)
			}
			if err := put(t, syncer, key); writable != (err == nil) || !writable && !errors.Is(err, store.ErrDenied) {
				t.Errorf("%s: written by the syncer: %v", name, err)
			}
			if _, err := stranger.Read(t.Context(), key); !errors.Is(err, store.ErrDenied) {
				t.Errorf("%s: read by a stranger: %v", name, err)
			}
		}
	})
}

// What a whole syncer does: a mirror of what is its own, and a session.
func TestAMirrorAndASessionNeedNoMore(t *testing.T) {
	embeddedAndGateway(t, func(t *testing.T, g *guarded) {
		syncer := g.open(access.Syncer(clusterA, uidA))
		session, err := syncer.OpenSession(t.Context(), store.SessionConfig{Key: record.SessionKey(clusterA), Record: record.Session{V: 1, Instance: "test"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Another life of the same id is another user.
func TestRevoke(t *testing.T) {
	g := guard(t)
	old := g.open(access.Syncer(clusterA, uidA))
	for range 2 {
		if err := g.admin.Revoke(t.Context(), clusterA, uidA); err != nil {
			t.Fatal(err)
		}
	}
	users, err := g.admin.Users(t.Context())
	if err != nil || slices.Contains(users, access.Syncer(clusterA, uidA)) || !slices.Contains(users, access.Syncer(clusterB, uidB)) {
		t.Errorf("users are %v, %v", users, err)
	}
	g.admit(clusterA, "another-life")
	if _, err := old.Read(t.Context(), record.DesiredClusterKey(clusterA)); !errors.Is(err, store.ErrDenied) {
		t.Errorf("the former life reads: %v", err)
	}
	if _, err := g.open(access.Syncer(clusterA, "another-life")).Read(t.Context(), record.DesiredClusterKey(clusterA)); err != nil {
		t.Errorf("the new life: %v", err)
	}
}

// A role that has more rights than it should gets those it should have.
func TestAdmitTakesWhatIsTooMuch(t *testing.T) {
	g := guard(t)
	auth := g.open(access.Root).Auth()
	name := access.Syncer(clusterA, uidA)
	if _, err := auth.RoleGrantPermission(t.Context(), name, record.MetaKey, "", clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
		t.Fatal(err)
	}
	syncer := g.open(name)
	if _, err := syncer.Read(t.Context(), record.MetaKey); err != nil {
		t.Fatal(err)
	}
	g.admit(clusterA, uidA)
	if _, err := syncer.Read(t.Context(), record.MetaKey); !errors.Is(err, store.ErrDenied) {
		t.Errorf("it still reads meta: %v", err)
	}
}

func TestEnabled(t *testing.T) {
	open := storetest.New(t)
	if on, err := access.New(open).Enabled(t.Context()); err != nil || on {
		t.Errorf("an open etcd: %v, %v", on, err)
	}
	if on, err := guard(t).admin.Enabled(t.Context()); err != nil || !on {
		t.Errorf("a guarded etcd: %v, %v", on, err)
	}
}

package e2e_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

func newGuardedWorld(t *testing.T) *world.World {
	t.Helper()
	return world.New(t, world.Options{Wire: wire.New(1), Names: names, Guarded: true, Secrets: []string{"canary-environment-secret"}})
}

// as connects as the syncer of one life of a cluster.
func as(w *world.World, id, uid string) *store.Store {
	w.T.Helper()
	return storetest.Open(w.T, w.As(access.Syncer(id, uid)))
}

// write tries to change a key.
func write(ctx context.Context, s *store.Store, key string) error {
	_, err := s.Update(ctx, store.Update{Keys: []string{key}, Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(key, "break-in")
		return nil
	}})
	return err
}

// writable are the keys, and the beginnings of keys, that a user may write.
func writable(w *world.World, user string) (out []string) {
	w.T.Helper()
	role, err := w.Store.Auth().RoleGet(w.T.Context(), user)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, p := range role.Perm {
		if p.PermType != authpb.READ {
			out = append(out, string(p.Key))
		}
	}
	slices.Sort(out)
	return out
}

func users(w *world.World) []string {
	w.T.Helper()
	out, err := access.New(w.Store).Users(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	return out
}

// A creation over three clusters needs no right that its syncers do not have, and each
// of them has none on what is another's.
func TestAFederationOverAnEtcdWithUsers(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newGuardedWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		s := as(w, a, w.Cluster(a).UID)
		if _, err := s.Read(t.Context(), record.DesiredServiceKey(a, names[0])); err != nil {
			t.Errorf("its own: %v", err)
		}
		for _, key := range []string{
			record.DesiredServiceKey(b, names[1]), record.ObservedServiceKey(b, names[1]), record.SessionKey(b),
			record.MetaKey, record.FenceKey, record.ClusterKey(a), record.DeletedKey("x"),
		} {
			if _, err := s.Read(t.Context(), key); !errors.Is(err, store.ErrDenied) {
				t.Errorf("it reads %s: %v", key, err)
			}
		}
		for _, key := range []string{record.DesiredServiceKey(a, names[0]), record.ObservedServiceKey(b, names[1]), record.SessionKey(b), record.MetaKey} {
			if err := write(t.Context(), s, key); !errors.Is(err, store.ErrDenied) {
				t.Errorf("it writes %s: %v", key, err)
			}
		}
		if _, err := w.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("everything is gone", func() bool { return gone(w) })
	})
}

// A cluster that was away when it was removed comes back with the certificate that it
// has: it carries its tombstones out, and has no rights after that.
func TestARemovedClusterDoesItsLastOrdersAndIsNobodyThen(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newGuardedWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		away(w, c)
		user := access.Syncer(c, w.Cluster(c).UID)
		old := as(w, c, w.Cluster(c).UID)
		if res := removed(w, c, client.RemoveClusterOptions{Force: true}); res.Pending == 0 {
			t.Fatal("there is nothing left to do")
		}
		w.Eventually("what it may write is less", func() bool {
			return slices.Equal(writable(w, user), []string{record.ObservedClusterKey(c), record.ObservedServicesPrefix(c), record.SessionKey(c)})
		})
		if _, err := old.Read(t.Context(), record.DesiredServiceKey(c, names[2])); err != nil {
			t.Errorf("its tombstone: %v", err)
		}
		if _, err := old.Read(t.Context(), record.MetaKey); !errors.Is(err, store.ErrDenied) {
			t.Errorf("it reads more than its own: %v", err)
		}
		w.Cluster(c).Start()
		w.Eventually("its service is deleted and nothing is left", func() bool {
			return !slices.Contains(w.Cluster(c).Sim.Services(), names[2]) && len(w.Keys(record.DesiredPrefix(c))) == 0
		})
		w.Eventually("it is nobody", func() bool { return !slices.Contains(users(w), user) })
		w.Eventually("it reads nothing", func() bool {
			_, err := old.Read(t.Context(), record.DesiredClusterKey(c))
			return errors.Is(err, store.ErrDenied)
		})
	})
}

// Open watches with the certificate of a removed cluster show nothing of another cluster
// that has its name.
func TestASyncerThatKeepsWatchingIsToldNothingOfTheNextClusterOfItsName(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newGuardedWorld(t)
		w.Cluster(c).Stop()
		former := w.Cluster(c).UID
		spy := as(w, c, former).NewMirror(store.MirrorConfig{Prefixes: []string{record.ClusterPrefix(c)}})
		world.Background(t, spy.Run)
		<-spy.Synced()
		if err := spy.Wait(t.Context(), w.Revision()); err != nil {
			t.Fatal(err)
		}
		removed(w, c, client.RemoveClusterOptions{})
		w.Register(w.Cluster(c))
		w.Eventually("the former cluster is nobody", func() bool { return !slices.Contains(users(w), access.Syncer(c, former)) })
		w.Eventually("its watch is cut", func() bool { return !spy.Healthy() })
		w.Cluster(c).Start(accepting(w, c))
		if err := w.CP.Clusters.Await(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		for kv := range spy.Snapshot().Prefix(record.DesiredServicesPrefix(c)) {
			t.Errorf("it was told of the next cluster's %s", kv.Key)
		}
	})
}

// A cluster that writes without end loses its rights and says so; nothing is placed
// there and its services go on. Readmitted, it is paused as it was; then it reports anew, all that it has at once,
// and stays.
func TestAClusterThatWritesTooMuchIsRevokedUntilItIsReadmitted(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := world.New(t, world.Options{Wire: wire.New(1), Names: names, Guarded: true, Breaks: []invariants.Rule{invariants.RuleRecords}, ControlPlane: func(cfg *controlplane.Config) {
			cfg.Limits = access.Limits{Keys: 50, Rate: 10} // and 10,000 at once
		}})
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Client.SetClusterState(t.Context(), c, "paused"); err != nil {
			t.Fatal(err)
		}
		w.Cluster(c).Stop()
		hostile := as(w, c, w.Cluster(c).UID)
		for i := 0; ; i++ {
			err := write(t.Context(), hostile, record.ObservedPrefix(c)+"rubbish/"+strconv.Itoa(i))
			if errors.Is(err, store.ErrDenied) {
				break
			}
			if err != nil && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknownOutcome) {
				t.Fatal(err)
			}
			if i > 100_000 {
				t.Fatal("nothing stops it")
			}
		}
		reg, err := w.Client.Cluster(t.Context(), c)
		if err != nil || reg.State != "revoked" || reg.Revoked == nil || !strings.Contains(reg.Revoked.Message, "50 are allowed") {
			t.Fatalf("it is %+v, %v", reg, err)
		}
		if !strings.Contains(w.Log.String(), "a cluster is revoked") {
			t.Error("nobody was told")
		}
		for _, id := range []string{a, b} {
			if v, err := w.Client.Cluster(t.Context(), id); err != nil || v.State != "active" {
				t.Errorf("%s: %+v, %v", id, v, err)
			}
		}
		if v, ok := w.Cluster(c).Sim.Service(names[2]); !ok || v.Token == "" {
			t.Error("its service is gone")
		}
		if _, err := create(w, strings.ReplaceAll(body, "grayifyr", "other")); codeOf(err) != "invalid" {
			t.Errorf("a creation there: %v", err)
		}
		if _, err := w.Client.SetClusterState(t.Context(), c, "active"); codeOf(err) != "conflict" {
			t.Errorf("it was activated as if nothing had been: %v", err)
		}
		for range 2 {
			if v, err := w.Client.ReadmitCluster(t.Context(), c); err != nil || v.State != "paused" || v.Revoked != nil {
				t.Fatalf("readmitted: %+v, %v", v, err)
			}
		}
		if !slices.Contains(users(w), access.Syncer(c, w.Cluster(c).UID)) {
			t.Error("it has no user")
		}
		entries, err := w.Client.Audit(t.Context(), client.AuditQuery{ClusterID: c})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, e := range entries {
			if e.Action == "set_cluster_state" {
				told = append(told, e.By+" "+e.Detail)
			}
		}
		if len(told) != 3 || told[0] != "cluster_admin readmitted" || !strings.HasPrefix(told[1], " revoked: ") {
			t.Errorf("the audit says %q", told)
		}
		if _, err := w.Client.SetClusterState(t.Context(), c, "active"); err != nil {
			t.Fatal(err)
		}
		w.Cluster(c).Start()
		if err := w.CP.Clusters.Await(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		w.Eventually("all are ready", func() bool { return ready(w) })
		if v, err := w.Client.Cluster(t.Context(), c); err != nil || v.State != "active" {
			t.Errorf("afterwards: %+v, %v", v, err)
		}
	})
}

package access_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

func TestKeep(t *testing.T) {
	g := guard(t)
	auth := g.open(access.Root).Auth()
	const uidC, uidD = "0199c3a2-0000-7000-8000-0000000000c0", "0199c3a2-0000-7000-8000-0000000000d0"
	// Other users of this etcd, and a revocation that was cut off between.
	for _, name := range []string{"somebody", "patroni.main", "oscar-cluster-d." + uidD} {
		if _, err := auth.RoleAdd(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"somebody", "patroni.main"} {
		if _, err := auth.UserAddWithOptions(t.Context(), name, "", &clientv3.UserAddOptions{NoPassword: true}); err != nil {
			t.Fatal(err)
		}
	}
	standing := map[access.Life]access.Standing{
		{Cluster: clusterA, UID: uidA}:            access.Retired,
		{Cluster: "oscar.cluster-c", UID: uidC}:   access.Admitted,
		{Cluster: "not.joined.yet", UID: "other"}: access.Admitted,
	}
	want := access.Wanted{
		Standing: func(life access.Life) access.Standing { return standing[life] },
		Needed:   []access.Life{{Cluster: "oscar.cluster-c", UID: uidC}},
	}
	syncerA := g.open(access.Syncer(clusterA, uidA))
	for range 2 {
		if err := g.admin.Keep(t.Context(), func(context.Context) (access.Wanted, error) { return want, nil }); err != nil {
			t.Fatal(err)
		}
		users, err := g.admin.Users(t.Context())
		slices.Sort(users)
		expected := []string{access.Syncer("oscar.cluster-c", uidC), access.Syncer(clusterA, uidA), access.ControlPlane, "patroni.main", access.Root, "somebody"}
		slices.Sort(expected)
		if err != nil || !slices.Equal(users, expected) {
			t.Errorf("users are %v, %v", users, err)
		}
	}
	roles, err := auth.RoleList(t.Context())
	if err != nil || slices.Contains(roles.Roles, "oscar-cluster-d."+uidD) || !slices.Contains(roles.Roles, "patroni.main") {
		t.Errorf("roles are %v, %v", roles.Roles, err)
	}
	for key, allowed := range map[string]bool{
		record.ObservedServiceKey(clusterA, "svc"): true, record.ObservedClusterKey(clusterA): true, record.SessionKey(clusterA): true,
		record.ShownKey(clusterA, "svc"): false, record.DesiredClusterKey(clusterA): false, record.ObservedServiceKey(clusterB, "svc"): false,
	} {
		if err := put(t, syncerA, key); allowed != (err == nil) || !allowed && !errors.Is(err, store.ErrDenied) {
			t.Errorf("a retired cluster writes %s: %v", key, err)
		}
	}
	failure := errors.New("not known")
	if err := g.admin.Keep(t.Context(), func(context.Context) (access.Wanted, error) { return access.Wanted{}, failure }); !errors.Is(err, failure) {
		t.Error(err)
	}
	if users, err := g.admin.Users(t.Context()); err != nil || len(users) != 6 {
		t.Errorf("without knowing what is wanted it changed users: %v %v", users, err)
	}
}

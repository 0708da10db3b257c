package access

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Users besides the clusters'.
const (
	Root         = "root"
	ControlPlane = "oscarfed-control-plane"
)

// Syncer is the user of one life of a cluster. Another life of the same id is
// another user.
func Syncer(cluster, uid string) string { return cluster + "." + uid }

// Admin changes users and roles. It is connected as root, or to an etcd on which
// authentication is not switched on yet. Every method may be repeated, and repeats
// its own steps: the guard ends root's connections when authentication is switched on.
type Admin struct {
	store *store.Store
	// tell, when set, is told of each step instead of its being taken.
	tell func(step string)
}

// New makes an Admin of a store that was opened with root's certificate.
func New(s *store.Store) *Admin { return &Admin{store: s} }

// DryRun makes an Admin that changes nothing and tells what it would do.
func DryRun(s *store.Store, tell func(step string)) *Admin {
	return &Admin{store: s, tell: tell}
}

// Enabled says whether etcd's authentication is on.
func (a *Admin) Enabled(ctx context.Context) (bool, error) {
	resp, err := store.Repeat(ctx, a.store, a.store.Auth().AuthStatus)
	if err != nil {
		return false, fmt.Errorf("etcd authentication: %w", err)
	}
	return resp.Enabled, nil
}

// SetUp makes root and the control plane's user, and switches authentication on. It
// leaves other users and roles of a shared etcd as they are.
func (a *Admin) SetUp(ctx context.Context) error {
	if err := a.role(ctx, Root); err != nil {
		return err
	}
	if err := a.user(ctx, Root, Root); err != nil {
		return err
	}
	if err := a.role(ctx, ControlPlane, write(record.Root)); err != nil {
		return err
	}
	if err := a.user(ctx, ControlPlane, ControlPlane); err != nil {
		return err
	}
	if on, err := a.Enabled(ctx); err != nil || on {
		return err
	}
	return a.step("switch authentication on", func() error {
		_, err := store.Repeat(ctx, a.store, a.store.Auth().AuthEnable)
		return err
	})
}

// Admit gives one life of a cluster its user and its rights.
func (a *Admin) Admit(ctx context.Context, cluster, uid string) error {
	return a.admit(ctx, cluster, uid, write(record.ObservedPrefix(cluster)))
}

func (a *Admin) admit(ctx context.Context, cluster, uid string, more ...grant) error {
	name := Syncer(cluster, uid)
	// One watch covers what is desired and what is reported; nothing else is there.
	grants := append([]grant{read(record.ClusterPrefix(cluster)), writeKey(record.SessionKey(cluster))}, more...)
	if err := a.role(ctx, name, grants...); err != nil {
		return err
	}
	return a.user(ctx, name, name)
}

// Revoke takes a cluster's user and its rights away. What it watches goes on until
// its connections end.
func (a *Admin) Revoke(ctx context.Context, cluster, uid string) error {
	name := Syncer(cluster, uid)
	err := a.step("delete user "+name, func() error {
		_, err := store.Repeat(ctx, a.store, func(ctx context.Context) (*clientv3.AuthUserDeleteResponse, error) {
			return a.store.Auth().UserDelete(ctx, name)
		})
		return err
	}, rpctypes.ErrUserNotFound)
	if err != nil {
		return err
	}
	return a.step("delete role "+name, func() error {
		_, err := store.Repeat(ctx, a.store, func(ctx context.Context) (*clientv3.AuthRoleDeleteResponse, error) {
			return a.store.Auth().RoleDelete(ctx, name)
		})
		return err
	}, rpctypes.ErrRoleNotFound)
}

// retire leaves a removed cluster what it needs to do its last orders when it comes
// back: it reads what is its own, says which services are deleted, and holds the
// session that fences that. Everything else that it reports is over.
func (a *Admin) retire(ctx context.Context, cluster, uid string) error {
	return a.admit(ctx, cluster, uid, write(record.ObservedServicesPrefix(cluster)), writeKey(record.ObservedClusterKey(cluster)))
}

// Users lists all users.
func (a *Admin) Users(ctx context.Context) ([]string, error) {
	resp, err := store.Repeat(ctx, a.store, a.store.Auth().UserList)
	if err != nil {
		return nil, fmt.Errorf("list etcd users: %w", err)
	}
	return resp.Users, nil
}

// grant is a right on one key, or on the keys from it up to end.
type grant struct {
	key, end string
	kind     clientv3.PermissionType
}

func read(prefix string) grant {
	return grant{prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermRead)}
}

func write(prefix string) grant {
	return grant{prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite)}
}

func writeKey(key string) grant {
	return grant{key: key, kind: clientv3.PermissionType(clientv3.PermReadWrite)}
}

// step takes one step, or returns its error. etcd's error for what another process, which does the
// same, has done already is none here.
func (a *Admin) step(what string, do func() error, done ...error) error {
	if a.tell != nil {
		a.tell(what)
		return nil
	}
	err := do()
	for _, harmless := range done {
		if errors.Is(err, harmless) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("etcd: %s: %w", what, err)
	}
	return nil
}

// role makes a role with exactly these rights. What is as it should be is not
// written again: every change makes etcd rebuild the rights of all users.
func (a *Admin) role(ctx context.Context, name string, grants ...grant) error {
	present, err := store.Repeat(ctx, a.store, func(ctx context.Context) (*clientv3.AuthRoleGetResponse, error) {
		return a.store.Auth().RoleGet(ctx, name)
	})
	switch {
	case errors.Is(err, rpctypes.ErrRoleNotFound):
		present = &clientv3.AuthRoleGetResponse{}
		err := a.step("add role "+name, func() error {
			_, err := store.Repeat(ctx, a.store, func(ctx context.Context) (*clientv3.AuthRoleAddResponse, error) {
				return a.store.Auth().RoleAdd(ctx, name)
			})
			return err
		}, rpctypes.ErrRoleAlreadyExist)
		if err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("read etcd role %s: %w", name, err)
	}
	if name == Root {
		return nil // its rights are etcd's own
	}
	have := map[grant]bool{}
	for _, p := range present.Perm {
		g := grant{string(p.Key), string(p.RangeEnd), clientv3.PermissionType(p.PermType)}
		have[g] = true
		// A right on the same keys of another kind is replaced by the grant below.
		if slices.ContainsFunc(grants, func(want grant) bool { return want.key == g.key && want.end == g.end }) {
			continue
		}
		err := a.step(fmt.Sprintf("take from role %s: %s", name, g), func() error {
			_, err := store.Repeat(ctx, a.store, func(ctx context.Context) (*clientv3.AuthRoleRevokePermissionResponse, error) {
				return a.store.Auth().RoleRevokePermission(ctx, name, g.key, g.end)
			})
			return err
		}, rpctypes.ErrPermissionNotGranted)
		if err != nil {
			return err
		}
	}
	for _, g := range grants {
		if have[g] {
			continue
		}
		err := a.step(fmt.Sprintf("give to role %s: %s", name, g), func() error {
			_, err := store.Repeat(ctx, a.store, func(ctx context.Context) (*clientv3.AuthRoleGrantPermissionResponse, error) {
				return a.store.Auth().RoleGrantPermission(ctx, name, g.key, g.end, g.kind)
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// String tells people what is granted.
func (g grant) String() string {
	kind := "read"
	if g.kind == clientv3.PermissionType(clientv3.PermReadWrite) {
		kind = "read and write"
	}
	if g.end == "" {
		return fmt.Sprintf("%s %s", kind, g.key)
	}
	return fmt.Sprintf("%s what is below %s", kind, g.key)
}

// user makes a user without a password, with one role.
func (a *Admin) user(ctx context.Context, name, role string) error {
	present, err := store.Repeat(ctx, a.store, func(ctx context.Context) (*clientv3.AuthUserGetResponse, error) {
		return a.store.Auth().UserGet(ctx, name)
	})
	switch {
	case errors.Is(err, rpctypes.ErrUserNotFound):
		err := a.step("add user "+name, func() error {
			_, err := store.Repeat(ctx, a.store, func(ctx context.Context) (*clientv3.AuthUserAddResponse, error) {
				return a.store.Auth().UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
			})
			return err
		}, rpctypes.ErrUserAlreadyExist)
		if err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("read etcd user %s: %w", name, err)
	case slices.Contains(present.Roles, role):
		return nil
	}
	return a.step(fmt.Sprintf("give user %s the role %s", name, role), func() error {
		_, err := store.Repeat(ctx, a.store, func(ctx context.Context) (*clientv3.AuthUserGrantRoleResponse, error) {
			return a.store.Auth().UserGrantRole(ctx, name, role)
		})
		return err
	})
}

package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// requestTimeout bounds each single call. Changing users twice is harmless, so what
// was not answered is simply asked again by the caller.
const requestTimeout = 5 * time.Second

// Syncer is the user of one life of a cluster. Another life of the same id is
// another user.
func Syncer(cluster, uid string) string { return cluster + "." + uid }

// Admin changes users and roles. It is connected as root, or to an etcd on which
// authentication is not switched on yet. Every method may be repeated.
type Admin struct {
	auth clientv3.Auth
}

// New makes an Admin of a store that was opened with root's certificate.
func New(s *store.Store) *Admin { return &Admin{auth: s.Auth()} }

// Enabled says whether etcd asks who is calling.
func (a *Admin) Enabled(ctx context.Context) (bool, error) {
	resp, err := call(ctx, a.auth.AuthStatus)
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
	if _, err := call(ctx, a.auth.AuthEnable); err != nil {
		return fmt.Errorf("switch etcd's authentication on: %w", err)
	}
	return nil
}

// Admit gives one life of a cluster its user and its rights.
func (a *Admin) Admit(ctx context.Context, cluster, uid string) error {
	name := Syncer(cluster, uid)
	err := a.role(ctx, name,
		// One watch covers what is desired and what is reported; nothing else is there.
		read(record.ClusterPrefix(cluster)),
		write(record.ObservedPrefix(cluster)),
		writeKey(record.SessionKey(cluster)),
	)
	if err != nil {
		return err
	}
	return a.user(ctx, name, name)
}

// Revoke takes a cluster's user and its rights away. What it watches goes on until
// its connections end.
func (a *Admin) Revoke(ctx context.Context, cluster, uid string) error {
	name := Syncer(cluster, uid)
	_, err := call(ctx, func(ctx context.Context) (*clientv3.AuthUserDeleteResponse, error) {
		return a.auth.UserDelete(ctx, name)
	})
	if err != nil && !errors.Is(err, rpctypes.ErrUserNotFound) {
		return fmt.Errorf("delete etcd user %s: %w", name, err)
	}
	_, err = call(ctx, func(ctx context.Context) (*clientv3.AuthRoleDeleteResponse, error) {
		return a.auth.RoleDelete(ctx, name)
	})
	if err != nil && !errors.Is(err, rpctypes.ErrRoleNotFound) {
		return fmt.Errorf("delete etcd role %s: %w", name, err)
	}
	return nil
}

// Users lists all users.
func (a *Admin) Users(ctx context.Context) ([]string, error) {
	resp, err := call(ctx, a.auth.UserList)
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

// role makes a role with exactly these rights. What is as it should be is not
// written again: every change makes etcd rebuild the rights of all users.
func (a *Admin) role(ctx context.Context, name string, grants ...grant) error {
	present, err := call(ctx, func(ctx context.Context) (*clientv3.AuthRoleGetResponse, error) { return a.auth.RoleGet(ctx, name) })
	switch {
	case errors.Is(err, rpctypes.ErrRoleNotFound):
		present = &clientv3.AuthRoleGetResponse{}
		_, err := call(ctx, func(ctx context.Context) (*clientv3.AuthRoleAddResponse, error) { return a.auth.RoleAdd(ctx, name) })
		if err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
			return fmt.Errorf("add etcd role %s: %w", name, err)
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
		if slices.Contains(grants, g) {
			continue
		}
		_, err := call(ctx, func(ctx context.Context) (*clientv3.AuthRoleRevokePermissionResponse, error) {
			return a.auth.RoleRevokePermission(ctx, name, g.key, g.end)
		})
		if err != nil && !errors.Is(err, rpctypes.ErrPermissionNotGranted) {
			return fmt.Errorf("take a right from etcd role %s: %w", name, err)
		}
	}
	for _, g := range grants {
		if have[g] {
			continue
		}
		_, err := call(ctx, func(ctx context.Context) (*clientv3.AuthRoleGrantPermissionResponse, error) {
			return a.auth.RoleGrantPermission(ctx, name, g.key, g.end, g.kind)
		})
		if err != nil {
			return fmt.Errorf("give a right to etcd role %s: %w", name, err)
		}
	}
	return nil
}

// user makes a user without a password, with one role.
func (a *Admin) user(ctx context.Context, name, role string) error {
	present, err := call(ctx, func(ctx context.Context) (*clientv3.AuthUserGetResponse, error) { return a.auth.UserGet(ctx, name) })
	switch {
	case errors.Is(err, rpctypes.ErrUserNotFound):
		_, err := call(ctx, func(ctx context.Context) (*clientv3.AuthUserAddResponse, error) {
			return a.auth.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
		})
		if err != nil && !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
			return fmt.Errorf("add etcd user %s: %w", name, err)
		}
	case err != nil:
		return fmt.Errorf("read etcd user %s: %w", name, err)
	case slices.Contains(present.Roles, role):
		return nil
	}
	_, err = call(ctx, func(ctx context.Context) (*clientv3.AuthUserGrantRoleResponse, error) {
		return a.auth.UserGrantRole(ctx, name, role)
	})
	if err != nil {
		return fmt.Errorf("give etcd user %s its role: %w", name, err)
	}
	return nil
}

// call runs one request with its own time limit.
func call[T any](ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return fn(ctx)
}

package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store"
)

// Life is one registration of a cluster: its etcd user.
type Life struct{ Cluster, UID string }

// Standing is what a life of a cluster may do in etcd.
type Standing int

// The standings.
const (
	// Gone has no user and no rights.
	Gone Standing = iota
	// Retired does its last orders and nothing else; see Admin.retire.
	Retired
	// Admitted is a cluster of the federation; see Admin.Admit.
	Admitted
)

// Wanted is the standing that each user is to have.
type Wanted struct {
	// Standing of any life; it is not called for users that are not clusters'.
	Standing func(Life) Standing
	// Needed are lives that must have a user.
	Needed []Life
}

// LifeOf takes a user's name apart; false when it is not a cluster's. Other users of this etcd
// have other names.
func LifeOf(user string) (Life, bool) {
	i := strings.LastIndexByte(user, '.')
	if i <= 0 || len(user)-i-1 != 36 {
		return Life{}, false
	}
	if _, err := uuid.Parse(user[i+1:]); err != nil {
		return Life{}, false
	}
	return Life{user[:i], user[i+1:]}, true
}

// Keep gives every user and role of a cluster the standing that is wanted. It asks for the
// standings after the users were listed: a cluster is registered before its user is made. A
// failure of one holds no other up.
func (a *Admin) Keep(ctx context.Context, want func(context.Context) (Wanted, error)) error {
	users, err := a.Users(ctx)
	if err != nil {
		return err
	}
	roles, err := store.Repeat(ctx, a.store, func(ctx context.Context) (*clientv3.AuthRoleListResponse, error) { return a.store.Auth().RoleList(ctx) })
	if err != nil {
		return fmt.Errorf("list etcd roles: %w", err)
	}
	now, err := want(ctx)
	if err != nil {
		return err
	}
	lives := map[Life]bool{}
	for _, life := range now.Needed {
		lives[life] = true
	}
	// A role without its user is left by a revocation that was cut off.
	for _, name := range slices.Concat(users, roles.Roles) {
		if life, ok := LifeOf(name); ok {
			lives[life] = true
		}
	}
	var failed []error
	for life := range lives {
		switch now.Standing(life) {
		case Admitted:
			err = a.Admit(ctx, life.Cluster, life.UID)
		case Retired:
			err = a.retire(ctx, life.Cluster, life.UID)
		default:
			err = a.Revoke(ctx, life.Cluster, life.UID)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("cluster %s: %w", life.Cluster, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

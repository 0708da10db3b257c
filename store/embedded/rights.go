package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/auth"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oscarfed/oscarfed/store/guard"
)

const (
	// rootUser sets etcd's users up. He is let in while there are none.
	rootUser = "root"
	// rightsInterval is how often the rights of the connected users are read.
	rightsInterval = time.Second
)

// rights are what etcd's users may do.
type rights struct {
	// users is etcd's own store of users, once the server has one.
	users atomic.Pointer[auth.AuthStore]
}

// admit says whether a user is let in. While authentication is off, every client with a
// certificate could do everything: then only root is let in, which switches it on.
func (r *rights) admit(user string) (string, error) {
	words, on := r.of(user)
	if !on && user != rootUser {
		return "", errors.New("etcd's authentication is not switched on; only root is let in")
	}
	return words, nil
}

// watch ends connections whose user has other rights than when he connected, and those
// that are stalled, until closing is closed.
func (r *rights) watch(gate *guard.Gate, closing <-chan struct{}) {
	tick := time.NewTicker(rightsInterval)
	defer tick.Stop()
	var seen uint64
	for {
		select {
		case <-closing:
			return
		case now := <-tick.C:
			gate.CutStalled(now)
		}
		// The revision is read before the rights: a change in between is seen next time.
		users := r.users.Load()
		if rev := (*users).Revision(); rev != seen {
			seen = rev
			gate.CutChanged(func(user string) string { words, _ := r.of(user); return words })
		}
	}
}

// of says in words what a user may do; empty for one that etcd does not know. on is false while
// authentication is off.
func (r *rights) of(user string) (words string, on bool) {
	users := r.users.Load()
	if users == nil || !(*users).IsAuthEnabled() {
		return "", false
	}
	u, err := (*users).UserGet(&pb.AuthUserGetRequest{Name: user})
	if err != nil {
		return "", true
	}
	var out strings.Builder
	for _, name := range u.Roles {
		fmt.Fprintf(&out, "%q", name)
		role, err := (*users).RoleGet(&pb.AuthRoleGetRequest{Role: name})
		if err != nil {
			continue
		}
		for _, p := range role.Perm {
			fmt.Fprintf(&out, " %s %q %q", p.PermType, p.Key, p.RangeEnd)
		}
		out.WriteByte(';')
	}
	return out.String(), true
}

// Known implements guard.Etcd. Without a guard, etcd itself says what its users may read, if there
// are any.
func (s *Server) Known(_ context.Context, user string) bool {
	if s.gate == nil {
		users := s.rights.users.Load()
		return users != nil && !(*users).IsAuthEnabled()
	}
	words, on := s.rights.of(user)
	return on && words != ""
}

// LeaseKeys implements guard.Etcd.
func (s *Server) LeaseKeys(ctx context.Context, _ string, id int64) ([]string, error) {
	resp, err := s.server.LeaseTimeToLive(s.server.AuthStore().WithRoot(ctx), &pb.LeaseTimeToLiveRequest{ID: id, Keys: true})
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(resp.Keys))
	for i, key := range resp.Keys {
		keys[i] = string(key)
	}
	return keys, nil
}

// Part implements guard.Etcd.
func (s *Server) Part(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := s.server.LinearizableReadNotify(ctx); err != nil {
		return nil, status.Errorf(codes.Unavailable, "etcd cannot be read now: %v", err)
	}
	got, err := s.server.KV().Range(ctx, r.Key, nil, mvcc.RangeOptions{CountOnly: r.CountOnly})
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "etcd cannot be read now: %v", err)
	}
	count := len(got.KVs)
	if r.CountOnly {
		count = got.Count
	}
	return &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: got.Rev}, Kvs: got.KVs, Count: int64(count)}, nil
}

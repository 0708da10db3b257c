package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/auth"

	"github.com/oscarfed/oscarfed/store/guard"
)

const (
	// rootUser sets etcd's users up. He is let in while there are none.
	rootUser = "root"
	// rightsInterval is how often the rights of those who are connected are looked at.
	rightsInterval = time.Second
)

// rights are what etcd's users may do. It ends the connections of those whose rights
// have changed.
type rights struct {
	log *slog.Logger
	// users is etcd's own store of users, once the server has one.
	users atomic.Pointer[auth.AuthStore]

	mu sync.Mutex
	// known are the rights of those who are connected, as they were then.
	known map[string]string
}

// admit says whether a user is let in. While etcd asks nobody who he is, everybody with
// a certificate could do everything: then only root is let in, who switches that on.
func (r *rights) admit(user string) error {
	words, on := r.of(user)
	if !on && user != rootUser {
		return errors.New("etcd's authentication is not switched on; only root is let in")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.known[user]; !ok {
		r.known[user] = words
	}
	return nil
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
			r.look(gate)
		}
	}
}

func (r *rights) look(gate *guard.Gate) {
	next := map[string]string{}
	for user := range gate.Users() {
		now, _ := r.of(user)
		next[user] = now
		r.mu.Lock()
		before, ok := r.known[user]
		r.mu.Unlock()
		if ok && before == now {
			continue
		}
		n := gate.Cut(user)
		r.log.Info("connections to etcd were ended: the rights of their user have changed", "user", user, "connections", n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = next
}

// of says in words what a user may do; empty for one whom etcd does not know. on is
// false while etcd asks nobody who he is.
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

// Known implements guard.Etcd.
func (s *Server) Known(_ context.Context, user string) bool {
	words, on := s.rights.of(user)
	return on && words != ""
}

// LeaseKeys implements guard.Etcd.
func (s *Server) LeaseKeys(ctx context.Context, _ string, id int64) ([]string, error) {
	resp, err := s.etcd.Server.LeaseTimeToLive(s.etcd.Server.AuthStore().WithRoot(ctx), &pb.LeaseTimeToLiveRequest{ID: id, Keys: true})
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(resp.Keys))
	for i, key := range resp.Keys {
		keys[i] = string(key)
	}
	return keys, nil
}

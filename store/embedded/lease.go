package embedded

import (
	"context"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
)

// etcd gives leases to everybody who can connect, as many as he asks for and without
// a word about rights. Each costs memory, and disk, until it ends. These are the
// limits of one user who is not trusted; a syncer holds one lease, of 30 s.
const (
	maxLeases = 100
	// maxLeaseTTL in seconds.
	maxLeaseTTL = 3600
	// leaseRate per second, and how many at once after a pause.
	leaseRate, leaseBurst = 1, 60
)

// leases counts and limits the leases of each user. What was given before a restart
// is not counted; it ends within maxLeaseTTL unless somebody keeps it alive.
type leases struct {
	trusted []string
	// knows says whether a user exists: who was removed gets none.
	knows func(user string) bool
	// alive lists the leases of all users.
	alive func(ctx context.Context) (map[int64]bool, error)
	// told is told of each answer.
	told func(user string, granted bool)

	mu    sync.Mutex
	users map[string]*holder
}

// holder is what one user holds.
type holder struct {
	pace *rate.Limiter
	ids  []int64
	// asked counts requests that are not answered yet.
	asked int
}

func (l *leases) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	grant, ok := req.(*pb.LeaseGrantRequest)
	if !ok {
		return handler(ctx, req)
	}
	user := userOf(ctx)
	if slices.Contains(l.trusted, user) {
		resp, err := handler(ctx, req)
		l.told(user, err == nil)
		return resp, err
	}
	if err := l.ask(ctx, user, grant.TTL); err != nil {
		l.told(user, false)
		return nil, err
	}
	resp, err := handler(ctx, req)
	given, _ := resp.(*pb.LeaseGrantResponse)
	if err != nil {
		given = nil
	}
	l.answered(user, given)
	l.told(user, given != nil)
	return resp, err
}

// ask takes a place for one more lease.
func (l *leases) ask(ctx context.Context, user string, ttl int64) error {
	switch {
	case !l.knows(user):
		return rpctypes.ErrGRPCPermissionDenied
	case ttl > maxLeaseTTL:
		return rpctypes.ErrGRPCLeaseTTLTooLarge
	}
	full, err := l.take(user)
	if !full || err != nil {
		return err
	}
	// What has ended makes room. The listing is paced as the requests are.
	alive, err := l.alive(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.users[user]
	h.ids = slices.DeleteFunc(h.ids, func(id int64) bool { return !alive[id] })
	if len(h.ids)+h.asked >= maxLeases {
		return rpctypes.ErrGRPCRequestTooManyRequests
	}
	h.asked++
	return nil
}

// take takes a place if there is one that is known to be free.
func (l *leases) take(user string) (full bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.users[user]
	if h == nil {
		h = &holder{pace: rate.NewLimiter(leaseRate, leaseBurst)}
		l.users[user] = h
	}
	if !h.pace.Allow() {
		return false, rpctypes.ErrGRPCRequestTooManyRequests
	}
	if len(h.ids)+h.asked >= maxLeases {
		return true, nil
	}
	h.asked++
	return false, nil
}

func (l *leases) answered(user string, given *pb.LeaseGrantResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.users[user]
	h.asked--
	if given != nil {
		h.ids = append(h.ids, given.ID)
	}
}

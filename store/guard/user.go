package guard

import (
	"context"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/tap"
)

// user is an untrusted one, with what is under way for it.
type user struct {
	name     string
	building *semaphore.Weighted
	lists    *semaphore.Weighted
	messages *rate.Limiter
	// queued are the bytes of answers that its connections have not taken yet.
	queued atomic.Int64

	mu                                   sync.Mutex
	requests, arriving, streams, watches int
	leases                               leases
}

func (g *Guard) userOf(name string) *user {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.users[name]
	if u == nil {
		limits := g.cfg.Limits
		u = &user{
			name: name, building: semaphore.NewWeighted(limits.Bytes), lists: semaphore.NewWeighted(listsAtOnce),
			messages: rate.NewLimiter(rate.Limit(limits.Messages), int(5*limits.Messages)), leases: newLeases(),
		}
		g.users[name] = u
	}
	return u
}

type arrivalKey struct{}

// arrival is a request whose body may not be there yet.
type arrival struct {
	user   *user
	stream bool
	there  bool // under user.mu
}

// tap counts a request when its head has come: its body, which may have megabytes, is
// read before any interceptor is asked. It must not block.
func (g *Guard) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	name := UserOf(ctx)
	limited, err := g.admits(name, info.FullMethodName)
	if err != nil || !limited {
		return ctx, err
	}
	a := &arrival{user: g.userOf(name), stream: streams(info.FullMethodName)}
	if !a.begin(g.cfg.Limits) {
		g.cfg.OnRefusal(name, "requests")
		return ctx, rpctypes.ErrGRPCRequestTooManyRequests
	}
	context.AfterFunc(ctx, a.end) // gRPC ends it with the request, whatever becomes of that
	return context.WithValue(ctx, arrivalKey{}, a), nil
}

func (a *arrival) begin(limits Limits) bool {
	u := a.user
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.requests >= limits.Requests || u.arriving >= limits.Arriving || a.stream && u.streams >= limits.Streams {
		return false
	}
	u.requests++
	u.arriving++
	if a.stream {
		u.streams++
	}
	return true
}

func (a *arrival) end() {
	a.arrived()
	a.user.mu.Lock()
	defer a.user.mu.Unlock()
	a.user.requests--
	if a.stream {
		a.user.streams--
	}
}

func (a *arrival) arrived() {
	a.user.mu.Lock()
	defer a.user.mu.Unlock()
	if !a.there {
		a.there = true
		a.user.arriving--
	}
}

// arrived notes that the body of a request is there.
func arrived(ctx context.Context) {
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		a.arrived()
	}
}

// build waits until so many bytes may be built for a user, and takes them.
func (c *call) build(ctx context.Context, bytes int64) (release func(), err error) {
	own, err := c.buildOwn(ctx, bytes)
	if err != nil {
		return nil, err
	}
	all, err := c.buildShared(ctx, bytes)
	if err != nil {
		own()
		return nil, err
	}
	return sync.OnceFunc(func() {
		all()
		own()
	}), nil
}

// buildOwn takes places among those of the user alone. What was built while it waited may now wait
// for the user to take it.
func (c *call) buildOwn(ctx context.Context, bytes int64) (release func(), err error) {
	bytes = min(bytes, c.cfg.Limits.Bytes, c.cfg.Limits.Total)
	if err := c.user.building.Acquire(ctx, bytes); err != nil {
		return nil, c.tooMany("bytes")
	}
	if err := c.checkQueued(); err != nil {
		c.user.building.Release(bytes)
		return nil, err
	}
	return func() { c.user.building.Release(bytes) }, nil
}

// buildShared takes places among those of all users alone.
func (c *call) buildShared(ctx context.Context, bytes int64) (release func(), err error) {
	bytes = min(bytes, c.cfg.Limits.Bytes, c.cfg.Limits.Total)
	if err := c.building.Acquire(ctx, bytes); err != nil {
		return nil, c.tooMany("bytes")
	}
	return func() { c.building.Release(bytes) }, nil
}

// small is what a user's answers may hold although those of all hold too much.
const small = 1 << 20

// checkQueued refuses a user that does not take the answers that it has asked for.
func (c *call) checkQueued() error {
	own := c.user.queued.Load()
	if own > c.cfg.Limits.Bytes || own > small && c.queuedByAll() > c.cfg.Limits.Total {
		return c.tooMany("bytes")
	}
	return nil
}

func (g *Guard) queuedByAll() (all int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, u := range g.users {
		all += u.queued.Load()
	}
	return all
}

package guard

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Etcd is what a guard asks the etcd behind it.
type Etcd interface {
	// Known says whether a user may ask for anything at all.
	Known(ctx context.Context, user string) bool
	// LeaseKeys are the keys that end with a lease.
	LeaseKeys(ctx context.Context, user string, id int64) ([]string, error)
	// Part reads one part of a definition, which no user has a right in etcd to. The request
	// has a key, and may be for the count alone.
	Part(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error)
}

// Config of a guard.
type Config struct {
	Etcd Etcd
	// Trusted are users without limits.
	Trusted []string
	// Limits default to defaultLimits.
	Limits Limits
	// LeaseKey marks the leases of each user. A process that has it can tell the user of a lease,
	// also after a restart and at another instance; default a random one.
	LeaseKey []byte
	// OnLease, when set, is told of each request for a lease.
	OnLease func(user string, granted bool)
	// OnRefusal, when set, is told of each request that passes a limit, and of which.
	OnRefusal func(user, limit string)
	Logger    *slog.Logger
}

// Guard limits users. It is safe for concurrent use.
type Guard struct {
	cfg Config
	// building has a place for each byte of answers that are built.
	building *semaphore.Weighted
	shared   shared

	mu sync.Mutex
	// users that were seen. Only names that the authority has signed come in, so there are no more
	// than registrations.
	users map[string]*user
	// gate is the TLS of the server; nil for none.
	gate *Gate
}

// New makes a guard.
func New(cfg Config) *Guard {
	if cfg.Limits == (Limits{}) {
		cfg.Limits = defaultLimits()
	}
	if cfg.LeaseKey == nil {
		cfg.LeaseKey = []byte(rand.Text())
	}
	if cfg.OnLease == nil {
		cfg.OnLease = func(string, bool) {}
	}
	if cfg.OnRefusal == nil {
		cfg.OnRefusal = func(string, string) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Guard{cfg: cfg, building: semaphore.NewWeighted(cfg.Limits.Total), users: map[string]*user{}}
}

// ServerOptions put the guard into a server.
func (g *Guard) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.InTapHandle(g.tap), grpc.ChainUnaryInterceptor(g.unary), grpc.ChainStreamInterceptor(g.stream),
		grpc.ForceServerCodecV2(newCodec()),
	}
}

// SharingOptions put the guard into a server that has no limits, for what its readers share.
func (g *Guard) SharingOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(g.share), grpc.ForceServerCodecV2(newCodec())}
}

func (g *Guard) share(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	name := UserOf(ctx)
	if r, ok := req.(*pb.RangeRequest); ok && isPart(r) && g.cfg.Etcd.Known(ctx, name) {
		return (&call{Guard: g, user: g.userOf(name)}).part(ctx, r)
	}
	return next(ctx, req)
}

// serves says whether a call is for untrusted users: it is what a syncer needs. Everything else of
// etcd is for its administrators, or works on keys through a client inside the server.
func serves(method string) bool {
	switch method {
	case pb.KV_Range_FullMethodName, pb.KV_Txn_FullMethodName, pb.KV_Put_FullMethodName, pb.KV_DeleteRange_FullMethodName,
		pb.Lease_LeaseGrant_FullMethodName, pb.Lease_LeaseRevoke_FullMethodName, pb.Lease_LeaseTimeToLive_FullMethodName,
		pb.Maintenance_Status_FullMethodName:
		return true
	}
	return streams(method)
}

// streams says whether a call lasts.
func streams(method string) bool {
	switch method {
	case pb.KV_RangeStream_FullMethodName, pb.Watch_Watch_FullMethodName, pb.Lease_LeaseKeepAlive_FullMethodName:
		return true
	}
	return false
}

// Locks and elections are not served: no part of oscarfed uses them.
const (
	lockService     = "/v3lockpb."
	electionService = "/v3electionpb."
)

// admits says whether a call is served, and whether its user has limits.
func (g *Guard) admits(user, method string) (limited bool, err error) {
	limited = !slices.Contains(g.cfg.Trusted, user)
	if strings.HasPrefix(method, lockService) || strings.HasPrefix(method, electionService) || limited && !serves(method) {
		return limited, status.Errorf(codes.PermissionDenied, "%s is not served here", method)
	}
	return limited, nil
}

// call is one request of a user with limits.
type call struct {
	*Guard
	user *user
	conn *conn
	next func(ctx context.Context, req any) (any, error)
}

func (g *Guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	name := UserOf(ctx)
	limited, err := g.admits(name, info.FullMethod)
	if err != nil {
		return nil, err
	}
	if !limited {
		resp, err := next(ctx, req)
		if _, ok := req.(*pb.LeaseGrantRequest); ok {
			g.cfg.OnLease(name, err == nil)
		}
		return resp, err
	}
	arrived(ctx)
	c := &call{Guard: g, user: g.userOf(name), conn: g.connOf(ctx), next: next}
	if err := c.checkQueued(); err != nil {
		return nil, err
	}
	resp, err := c.do(ctx, req)
	if err != nil {
		return nil, err
	}
	switch m := resp.(type) {
	case *sharedAnswer:
		c.conn.queue(m.size())
	case proto.Message:
		c.conn.queue(proto.Size(m))
	}
	return resp, nil
}

func (c *call) do(ctx context.Context, req any) (any, error) {
	switch r := req.(type) {
	case *pb.RangeRequest:
		return c.read(ctx, r)
	case *pb.TxnRequest:
		return c.txn(ctx, r)
	case *pb.PutRequest:
		return c.put(ctx, r)
	case *pb.DeleteRangeRequest:
		if r.PrevKv && len(r.RangeEnd) > 0 {
			return nil, c.refuse("answer", "the former values of a range are not told: read it before")
		}
		return c.weighed(ctx, r, maxValue)
	case *pb.LeaseGrantRequest:
		return c.grant(ctx, r)
	case *pb.LeaseRevokeRequest:
		return c.revoke(ctx, r)
	case *pb.LeaseTimeToLiveRequest:
		if err := c.owns(ctx, r.ID); err != nil {
			return nil, err
		}
		if r.Keys {
			return c.weighed(ctx, r, keysOfLease)
		}
		return c.next(ctx, r)
	}
	return c.next(ctx, req)
}

// refuse tells which limit a request passes, and what to do instead.
func (c *call) refuse(limit, words string) error {
	c.cfg.OnRefusal(c.user.name, limit)
	return status.Error(codes.ResourceExhausted, words)
}

// tooMany is what etcd's clients know: to be tried again.
func (c *call) tooMany(limit string) error {
	c.cfg.OnRefusal(c.user.name, limit)
	return rpctypes.ErrGRPCRequestTooManyRequests
}

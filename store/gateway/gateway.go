package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/guard"
	"github.com/oscarfed/oscarfed/store/internal/connection"
)

// Config of a gateway.
type Config struct {
	// Listener is where clusters connect; Run closes it.
	Listener net.Listener
	// Certificate is the gateway's own, asked for at each connection.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Clients are the authorities of the clusters' certificates.
	Clients *x509.CertPool
	// Etcd says where etcd is. Its certificate is not used.
	Etcd store.Config
	// As gives the certificate of a user, for etcd.
	As func(user string) func() (*tls.Certificate, error)
	// LeaseKey is the same for all gateways of one etcd: see guard.Config.
	LeaseKey []byte
	// Limits default to those of package guard.
	Limits guard.Limits
	// OnLease, OnRefusal and OnCall, when set, are told of what users ask.
	OnLease   func(user string, granted bool)
	OnRefusal func(user, limit string)
	OnCall    func(method string, code codes.Code)
	// Interval is how often the rights of the connected users are checked; default 3 s.
	Interval time.Duration
	Logger   *slog.Logger
}

// Times of the gateway.
const (
	defaultInterval = 3 * time.Second
	// callTimeout bounds a call whose client has set no deadline, and each of the
	// gateway's own.
	callTimeout = 30 * time.Second
	// drainTimeout is how long calls under way may take when the gateway stops.
	drainTimeout = 10 * time.Second
	// maxRequest in bytes is that of etcd: 1.5 MiB and half a megabyte for the rest.
	maxRequest = 2 << 20
	// silence is how long a client may say nothing before it is asked whether it lives.
	silence = 15 * time.Second
	// minPing is how often a client may ask the same; etcd allows it as often.
	minPing = 5 * time.Second
)

// Gateway passes on what clusters ask etcd.
type Gateway struct {
	cfg   Config
	gate  *guard.Gate
	pool  *pool
	serve *grpc.Server
	// open ends when it stops, by shut.
	open context.Context
	shut context.CancelFunc
	// safe is set while etcd is known to have authentication on.
	safe atomic.Bool
	// reached is set when etcd answered the last question about rights.
	reached atomic.Bool
	work    sync.WaitGroup
}

// New makes a gateway. Nothing is connected yet.
func New(cfg Config) *Gateway {
	if cfg.Interval == 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.OnCall == nil {
		cfg.OnCall = func(string, codes.Code) {}
	}
	g := &Gateway{cfg: cfg, pool: newPool(cfg)}
	g.open, g.shut = context.WithCancel(context.Background())
	limits := guard.New(guard.Config{
		Etcd: g, Limits: cfg.Limits, LeaseKey: cfg.LeaseKey, OnLease: cfg.OnLease, OnRefusal: cfg.OnRefusal, Logger: cfg.Logger,
	})
	g.gate = limits.NewGate(&tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: cfg.Clients, GetCertificate: cfg.Certificate,
	}, g.admit)
	options := []grpc.ServerOption{
		guard.Drain(g.open), grpc.ChainUnaryInterceptor(g.countUnary), grpc.ChainStreamInterceptor(g.countStream),
		grpc.MaxRecvMsgSize(maxRequest), grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: silence, Timeout: silence}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing}),
	}
	g.serve = grpc.NewServer(slices.Concat(options, connection.Server(), g.gate.ServerOptions(), limits.ServerOptions())...)
	pb.RegisterKVServer(g.serve, kvServer{gateway: g})
	pb.RegisterWatchServer(g.serve, watchServer{gateway: g})
	pb.RegisterLeaseServer(g.serve, leaseServer{gateway: g})
	pb.RegisterMaintenanceServer(g.serve, maintenanceServer{gateway: g})
	return g
}

// admit lets in the lives of clusters. Other users of etcd have no business here, and while
// authentication is off, every client could do everything.
func (g *Gateway) admit(user string) (rights string, err error) {
	if _, ok := access.LifeOf(user); !ok {
		return "", errors.New("only clusters are let in")
	}
	if !g.safe.Load() {
		return "", errors.New("it is not known yet that etcd asks who is calling")
	}
	return "", nil // they are looked at by asking etcd
}

// Safe says whether clusters are let in: etcd was reached, and its authentication is on.
func (g *Gateway) Safe() bool { return g.safe.Load() }

// Reached says whether etcd answered the gateway's last question. It asks while clusters are connected.
func (g *Gateway) Reached() bool { return g.reached.Load() }

// Clusters is how many users are connected, and by how many connections.
func (g *Gateway) Clusters() (users, connections int) {
	for _, n := range g.gate.Users() {
		users++
		connections += n
	}
	return users, connections
}

// Run serves until ctx ends. Then streams are told so, calls under way are answered, and
// the connections to etcd end last.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.pool.close()
	group, ctx := errgroup.WithContext(ctx)
	// A client that connects before waits for it.
	g.lookOnce(ctx)
	group.Go(func() error {
		if err := g.serve.Serve(g.cfg.Listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("the gateway: %w", err)
		}
		return nil
	})
	group.Go(func() error { g.look(ctx); return nil })
	group.Go(func() error {
		<-ctx.Done()
		g.shut()
		late := time.AfterFunc(drainTimeout, g.serve.Stop)
		defer late.Stop()
		g.serve.GracefulStop()
		return nil
	})
	err := group.Wait()
	g.work.Wait()
	return err
}

func (g *Gateway) countUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	resp, err := next(ctx, req)
	g.cfg.OnCall(info.FullMethod, status.Code(err))
	return resp, err
}

func (g *Gateway) countStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	err := next(srv, stream)
	g.cfg.OnCall(info.FullMethod, status.Code(err))
	return err
}

package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/cenkalti/backoff/v5"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"

	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store/internal/balance"
	"github.com/oscarfed/oscarfed/store/internal/connection"
	"github.com/oscarfed/oscarfed/store/internal/etcdlog"
	"github.com/oscarfed/oscarfed/store/record"
)

// probeTimeout is how long a probe of a silent connection may stay unanswered.
const probeTimeout = 3 * time.Second

// RevisionBump is by how much a restore raises the revisions of etcd: far more than is written
// between a backup and its restore, so that no revision that was seen stands for something else.
const RevisionBump = 1_000_000_000

// Leapt says that a restore which raised the revisions lies between two: more than are written while a process is away.
func Leapt(from, to int64) bool { return to-from > RevisionBump/2 }

// Store speaks to one etcd cluster. It is safe for concurrent use.
type Store struct {
	cfg Config
	// tls is nil without any; roots are what servers are verified with.
	tls    *tls.Config
	roots  *pki.Roots
	log    *slog.Logger
	zap    *zap.Logger
	client *clientv3.Client
	// pages is set when the server turned out not to stream ranges.
	pages atomic.Bool

	// refused is why nothing is written any more.
	refused atomic.Pointer[error]

	// mirrors are those that run.
	mirrorsMu sync.Mutex
	mirrors   []*Mirror
}

// Open connects to etcd, waits until it answers, and refuses servers with known
// holes (before 3.6.14, or 3.7.0): ErrOldServer. When nothing answers within ctx
// or Config.Deadline it returns ErrUnavailable.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	if s.client, err = s.dial(); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close ends all connections. Mirrors and sessions are closed before it.
func (s *Store) Close() error {
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close etcd client: %w", err)
	}
	return nil
}

// Refuse ends all writing: every Update from now on ends with the error, as it is. The
// first one counts.
func (s *Store) Refuse(err error) { s.refused.CompareAndSwap(nil, &err) }

// Auth changes users and roles; see package access.
func (s *Store) Auth() clientv3.Auth { return s.client.Auth }

// Dial makes a plain client of etcd that connects as a Store does. It waits for nothing.
func Dial(cfg Config) (*clientv3.Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	return s.dial()
}

// newStore is a store without a client.
func newStore(cfg Config) (*Store, error) {
	conf, err := cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	roots, err := cfg.roots()
	if err != nil {
		return nil, err
	}
	return &Store{
		cfg:   cfg,
		tls:   conf,
		roots: roots,
		log:   cfg.Logger,
		// What etcd's client warns of is handled, and told, here.
		zap: etcdlog.New(cfg.Logger.With("component", "etcd-client"), zapcore.ErrorLevel, nil),
	}, nil
}

// dial makes a client with connections of its own. It does not wait for them.
func (s *Store) dial() (*clientv3.Client, error) { return s.dialTo(s.cfg.Endpoints) }

// dialTo is dial for some of the endpoints.
func (s *Store) dialTo(endpoints []string) (*clientv3.Client, error) {
	options := slices.Concat(balance.Options(), connection.Client(), []grpc.DialOption{reconnection(s.cfg), grpc.WithChainStreamInterceptor(oneStream)})
	if s.tls != nil {
		// Of two transport credentials gRPC takes the last.
		options = append(options, grpc.WithTransportCredentials(newEtcdTLS(s.tls, s.roots, s.cfg.OnDistrust)))
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		TLS:                  s.tls,
		DialTimeout:          s.cfg.RequestTimeout,
		DialKeepAliveTime:    s.cfg.KeepAlive,
		DialKeepAliveTimeout: probeTimeout,
		DialOptions:          append(options, s.cfg.DialOptions...),
		Logger:               s.zap,
	})
	if err != nil {
		return nil, fmt.Errorf("etcd client: %w", err)
	}
	return client, nil
}

// reconnection says how soon a lost connection is tried again. gRPC's own pauses grow to two
// minutes: a client that was cut off for an hour would stay away two minutes longer. Many that
// come back at once are spread by the jitter.
func reconnection(cfg Config) grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           grpcbackoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.5, MaxDelay: 5 * time.Second},
		MinConnectTimeout: cfg.RequestTimeout,
	})
}

// ready waits for a linearizable answer, then looks at the members' releases.
func (s *Store) ready(ctx context.Context) error {
	_, _, err := s.get(ctx, record.MetaKey)
	// Denied is an answer too: a syncer may not read the key.
	if err != nil && !errors.Is(err, ErrDenied) {
		return fmt.Errorf("etcd at %v: %w", s.cfg.Endpoints, err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Deadline)
	defer cancel()
	wait := newBackOff(100*time.Millisecond, time.Second)
	for {
		answered, err := s.releases(ctx)
		if answered || err != nil {
			return err
		}
		// It answered a moment ago: an election, or a link that is cut.
		if cause := pause(ctx, wait.NextBackOff()); cause != nil {
			return fmt.Errorf("%w: no member at %v tells its release", ErrUnavailable, s.cfg.Endpoints)
		}
	}
}

// releases asks each member for its release, and refuses one that is too old. It
// says whether any has answered.
func (s *Store) releases(ctx context.Context) (answered bool, err error) {
	for _, endpoint := range s.cfg.Endpoints {
		tryCtx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
		status, err := s.client.Status(tryCtx, endpoint)
		cancel()
		if err != nil {
			s.log.Warn("etcd member does not answer", "endpoint", endpoint, "error", err)
			continue
		}
		if err := checkRelease(status.Version); err != nil {
			return false, fmt.Errorf("etcd at %s: %w", endpoint, err)
		}
		answered = true
	}
	return answered, nil
}

// checkRelease refuses releases in which a single-key grant lets a user watch
// everything (GHSA-xg4h-6gfc-h4m8) or a nested transaction passes by the
// permissions (CVE-2026-33343).
func checkRelease(version string) error {
	v, err := semver.NewVersion(version)
	if err != nil {
		return fmt.Errorf("%w: release %q is not understood", ErrOldServer, version)
	}
	least := semver.New(3, 6, 14, "", "")
	if v.Minor() == 7 && v.Major() == 3 {
		least = semver.New(3, 7, 1, "", "")
	}
	if v.LessThan(least) {
		return fmt.Errorf("%w: it runs %s; 3.6.14, 3.7.1 or later is needed", ErrOldServer, version)
	}
	return nil
}

// try runs one call with its own timeout. A request that demands a leader is
// refused at once during an election, instead of hanging.
func try[T any](ctx context.Context, s *Store, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), s.cfg.RequestTimeout)
	defer cancel()
	return call(ctx)
}

// Repeat tries a call that may be made twice until it is answered, ctx ends, or
// Config.Deadline has passed. Its error is one of this package, with etcd's in it.
func Repeat[T any](ctx context.Context, s *Store, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Deadline)
	defer cancel()
	return again(ctx, s, func(ctx context.Context) (T, error) { return try(ctx, s, call) })
}

// again is Repeat for calls that bound themselves: it begins none after Config.Deadline.
// It is the one rule of what reads are worth repeating for.
func again[T any](ctx context.Context, s *Store, call func(context.Context) (T, error)) (T, error) {
	wait := newBackOff(10*time.Millisecond, time.Second)
	giveUp := time.Now().Add(s.cfg.Deadline)
	for {
		out, err := call(ctx)
		if err == nil {
			return out, nil
		}
		err = translate(err)
		if !mayPass(err) || time.Now().After(giveUp) {
			return out, err
		}
		if cause := pause(ctx, wait.NextBackOff()); cause != nil {
			return out, because(err, cause)
		}
	}
}

// because adds to an error why nothing more is tried.
func because(err, cause error) error {
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// newBackOff grows from first to most, with jitter of a half.
func newBackOff(first, most time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = first, most, 2
	b.RandomizationFactor = 0.5
	b.Reset()
	return b
}

// pause waits for d, or returns why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

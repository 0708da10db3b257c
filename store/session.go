package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store/record"
)

// SessionConfig says which key a session holds.
type SessionConfig struct {
	// Key exists as long as the session lives.
	Key string
	// Record is what the key holds; it is written once.
	Record any
	// TTL is how long the key outlives a holder that fell silent, in whole
	// seconds; default 30 s, least 2 s. It should stay above the 15 s that a
	// broken connection needs to be noticed.
	TTL time.Duration
	// Ended says of the record of a session that holds the key that its holder has ended for certain: that
	// session is ended then. Default: of none.
	Ended func(record []byte) bool
	// Logger defaults to that of the store.
	Logger *slog.Logger
}

// Session is a key that exists as long as its holder renews a lease. A session
// that was lost is never used again: open a new one, which has another create
// revision. Nothing but Txn.ExpectSession keeps a stale holder from writing; the
// clock of Alive only spares useless work.
type Session struct {
	cfg     SessionConfig
	store   *Store
	lease   clientv3.LeaseID
	ttl     time.Duration
	created int64
	stop    context.CancelFunc
	done    chan struct{}

	mu sync.Mutex
	// renewed is when the last renewal that was answered was sent: the lease
	// lives at least until renewed + ttl.
	renewed time.Time
	ended   bool
}

// OpenSession waits while another session holds the key, until ctx ends, and
// then takes it. The session lives until Close, or until its lease is lost; ctx
// bounds only the opening.
func (s *Store) OpenSession(ctx context.Context, cfg SessionConfig) (*Session, error) {
	if cfg.Key == "" {
		return nil, errors.New("a session needs a key")
	}
	cfg.TTL = max(positiveOr(cfg.TTL, 30*time.Second), 2*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = s.log
	}
	value, err := record.Encode(cfg.Record)
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", cfg.Key, err)
	}
	for {
		if err := s.awaitAbsence(ctx, cfg); err != nil {
			return nil, fmt.Errorf("session %s: %w", cfg.Key, err)
		}
		x, err := s.acquire(ctx, cfg, string(value))
		if err == nil {
			return x, nil
		}
		if !errors.Is(err, ErrExists) {
			return nil, fmt.Errorf("session %s: %w", cfg.Key, err)
		}
	}
}

// acquire grants a lease and puts the key if it is absent. When the key exists
// the lease is given back and the error is ErrExists.
func (s *Store) acquire(ctx context.Context, cfg SessionConfig, value string) (*Session, error) {
	granted := time.Now()
	grant, err := Repeat(ctx, s, func(ctx context.Context) (*pb.LeaseGrantResponse, error) {
		granted = time.Now()
		return s.grant(ctx, cfg.TTL)
	})
	if err != nil {
		return nil, err
	}
	// The lease tells whose key it is, whatever became of the answer: etcd gives
	// an id to no second lease.
	kv, err := Repeat(ctx, s, func(ctx context.Context) (*mvccpb.KeyValue, error) {
		resp, err := s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(cfg.Key), "=", 0)).
			Then(clientv3.OpPut(cfg.Key, value, clientv3.WithLease(clientv3.LeaseID(grant.ID))), clientv3.OpGet(cfg.Key)).
			Else(clientv3.OpGet(cfg.Key)).
			Commit()
		if err != nil {
			return nil, err
		}
		read := resp.Responses[len(resp.Responses)-1].GetResponseRange()
		return read.Kvs[0], nil
	})
	if err == nil && kv.Lease != grant.ID {
		err = ErrExists
	}
	if err != nil {
		return nil, errors.Join(err, s.revoke(ctx, clientv3.LeaseID(grant.ID)))
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	x := &Session{
		cfg:     cfg,
		store:   s,
		lease:   clientv3.LeaseID(grant.ID),
		ttl:     time.Duration(grant.TTL) * time.Second,
		created: kv.CreateRevision,
		stop:    stop,
		done:    make(chan struct{}),
		renewed: granted,
	}
	go x.keepAlive(run)
	return x, nil
}

// awaitAbsence returns when the key is seen absent.
func (s *Store) awaitAbsence(ctx context.Context, cfg SessionConfig) error {
	for {
		kv, revision, err := s.get(ctx, cfg.Key)
		if err != nil {
			return err
		}
		if kv == nil {
			return nil
		}
		if cfg.Ended != nil && cfg.Ended(kv.Value) {
			err := s.revoke(ctx, clientv3.LeaseID(kv.Lease))
			if err == nil {
				cfg.Logger.Info("the session of a holder that has ended is ended", "key", cfg.Key, "since_revision", kv.CreateRevision)
				continue
			}
			cfg.Logger.Warn("the session of a holder that has ended lasts until its lease ends", "key", cfg.Key, "error", err)
		}
		s.log.Info("another session holds the key", "key", cfg.Key, "since_revision", kv.CreateRevision)
		s.awaitChange(ctx, cfg.Key, revision)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("held by another session: %w", context.Cause(ctx))
		}
	}
}

// awaitChange returns at the next event of a key, and in any case after a while:
// the caller looks again.
func (s *Store) awaitChange(ctx context.Context, key string, revision int64) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), s.cfg.Deadline)
	defer cancel()
	watch := s.client.Watch(ownStream(ctx), key, clientv3.WithRev(revision+1))
	resp, open := <-watch
	if !open || resp.Err() != nil {
		// Refused or broken: not at once again. The end of ctx is seen by the caller.
		_ = pause(ctx, s.cfg.RequestTimeout/10)
	}
}

// keepAlive renews the lease every third of its life until it is lost or ctx
// ends. Each renewal is a stream of its own, so that a broken one cannot hold up
// the next, and so that it is known when an answered renewal was sent.
func (x *Session) keepAlive(ctx context.Context) {
	defer close(x.done)
	next := x.ttl / 3
	retry := newBackOff(100*time.Millisecond, max(x.ttl/10, 100*time.Millisecond))
	for {
		if pause(ctx, next) != nil {
			x.end()
			return
		}
		sent := time.Now()
		ttl, err := x.renew(ctx)
		switch {
		case ctx.Err() != nil:
			x.end()
			return
		case err == nil && ttl > 0:
			x.mu.Lock()
			x.renewed = sent
			x.mu.Unlock()
			next = x.ttl / 3
			retry.Reset()
			continue
		case err == nil || errors.Is(translate(err), ErrSessionLost):
			x.cfg.Logger.Warn("session is lost: its lease has ended", "key", x.cfg.Key)
			x.end()
			return
		}
		if x.silence() >= x.ttl {
			x.cfg.Logger.Warn("session is lost: no renewal was answered", "key", x.cfg.Key, "error", err)
			x.end()
			return
		}
		next = retry.NextBackOff()
	}
}

// renew asks once for the lease to be prolonged; 0 means that it has ended.
func (x *Session) renew(ctx context.Context) (int64, error) {
	return try(ctx, x.store, func(ctx context.Context) (int64, error) {
		stream, err := pb.NewLeaseClient(x.store.client.ActiveConnection()).LeaseKeepAlive(ctx)
		if err != nil {
			return 0, err
		}
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(x.lease)}); err != nil {
			return 0, err
		}
		// Its end goes with the request, and that of the answer with the answer: thousands of sessions
		// are renewed with half as many messages.
		if err := stream.CloseSend(); err != nil {
			return 0, err
		}
		resp, err := stream.Recv()
		if err != nil {
			return 0, err
		}
		_, _ = stream.Recv() // the end of the stream
		x.store.confirm(resp.GetHeader().GetRevision())
		return resp.TTL, nil
	})
}

func (x *Session) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
}

// silence is how long ago the last answered renewal was sent, by the monotonic
// clock. That clock stands still while the machine sleeps.
func (x *Session) silence() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Since(x.renewed)
}

// Done is closed when the session is lost or closed.
func (x *Session) Done() <-chan struct{} { return x.done }

// Alive says whether acting still makes sense: the session has not ended, and
// less than two thirds of its TTL have passed since the last answered renewal.
func (x *Session) Alive() bool {
	x.mu.Lock()
	ended := x.ended
	x.mu.Unlock()
	return !ended && x.silence() < x.ttl*2/3
}

// CreateRevision identifies the session: the revision that its key was made at.
func (x *Session) CreateRevision() int64 { return x.created }

// Key is the key that the session holds.
func (x *Session) Key() string { return x.cfg.Key }

// Close gives the key free at once. When etcd does not answer the key stays
// until its lease ends, and the error says so.
func (x *Session) Close(ctx context.Context) error {
	x.stop()
	<-x.done
	if err := x.store.revoke(ctx, x.lease); err != nil {
		return fmt.Errorf("session %s: its key stays for up to %v: %w", x.cfg.Key, x.ttl, err)
	}
	return nil
}

// revoke ends a lease and its keys, even if ctx has ended.
func (s *Store) revoke(ctx context.Context, lease clientv3.LeaseID) error {
	_, err := try(context.WithoutCancel(ctx), s, func(ctx context.Context) (*clientv3.LeaseRevokeResponse, error) {
		return s.client.Revoke(ctx, lease)
	})
	if err = translate(err); errors.Is(err, ErrSessionLost) {
		return nil // it has ended already
	}
	return err
}

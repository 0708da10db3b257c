package syncer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/internal/signal"
	"github.com/oscarfed/oscarfed/internal/version"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/jobs"
	"github.com/oscarfed/oscarfed/syncer/offers"
	"github.com/oscarfed/oscarfed/syncer/originstorage"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
	"github.com/oscarfed/oscarfed/syncer/services"
	"github.com/oscarfed/oscarfed/syncer/session"
	"github.com/oscarfed/oscarfed/syncer/token"
)

// Syncer keeps one OSCAR cluster as it is desired in etcd.
type Syncer struct {
	cfg          Config
	cluster      *session.Cluster
	services     *services.Process
	metrics      *metrics
	jobMetrics   *jobs.Metrics
	jobs         jobs.Process
	offerMetrics *offers.Metrics
	definitions  *definition.Cache
	// events are those of assignments that the watch has brought and that were not read yet.
	events jobs.Events
	// registration is the desired cluster as it was last seen.
	registration atomic.Pointer[record.DesiredCluster]
	// tokens keeps refresh tokens.
	tokens *ownertoken.Process
	// origins are the storage of other clusters.
	origins *originstorage.Keys

	mu    sync.Mutex
	ready bool
}

// New checks cfg and makes a Syncer. It starts nothing.
func New(cfg Config) (*Syncer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	issuers, err := token.NewIssuers(cfg.Issuers, cfg.Dial.Transport(nil), cfg.Now)
	if err != nil {
		return nil, fmt.Errorf("syncer: %w", err)
	}
	s := &Syncer{
		cfg: cfg,
		cluster: &session.Cluster{
			ID: cfg.ClusterID, Instance: cfg.Instance, Store: cfg.Store, Identity: cfg.Identity, Now: cfg.Now, Log: cfg.Logger,
			FailPoints: cfg.FailPoints, Forms: cfg.Forms, Memory: cfg.Memory, AcceptUID: cfg.AcceptClusterUID, Compare: signal.New(),
		},
		events:       jobs.NewEvents(),
		services:     services.NewProcess(cfg.Registry, cfg.LateWindow, cfg.WriteTimeout, cfg.InDoubt),
		metrics:      newMetrics(cfg.Registry),
		jobMetrics:   jobs.NewMetrics(cfg.Registry),
		offerMetrics: offers.NewMetrics(cfg.Registry),
	}
	s.definitions = definition.NewCache(s.cluster, cfg.LocalURL)
	s.tokens = ownertoken.NewProcess(s.cluster, cfg.Vault, issuers)
	s.origins = originstorage.NewKeys(s.cluster, cfg.Origins, s.definitions, s.tokens)
	s.cluster.Mirror = s.newMirror()
	return s, nil
}

// watchInterval is after how long a silence of the watch progress is asked for: thousands of syncers ask one etcd.
const watchInterval = 15 * time.Second

// newMirror mirrors the cluster's own keys, without what is large: specs and events are read
// when they are needed. Questions are few, and so are access tokens, which are an hour old at
// most.
func (s *Syncer) newMirror() *store.Mirror {
	id := s.cluster.ID
	desired := record.DesiredPrefix(id)
	kept := []string{
		record.DesiredServicesPrefix(id), record.TokensPrefix(id), record.AssignmentsPrefix(id), record.OfferAnswersPrefix(id), desired + "asks/",
	}
	return s.cluster.Store.NewMirror(store.MirrorConfig{
		Prefixes: []string{desired, record.ObservedPrefix(id)},
		Skip: func(key string) bool {
			if record.ParseKey(key).Kind == record.KindOfferedEvent {
				return true
			}
			return strings.HasPrefix(key, desired) && key != record.DesiredClusterKey(id) &&
				!slices.ContainsFunc(kept, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
		},
		OnRelist: s.cluster.Relisted,
		Interval: watchInterval,
		Small:    true,
		Tap:      s.events,
		Logger:   s.cluster.Log,
	})
}

// Ready says whether the syncer holds its session and follows etcd.
func (s *Syncer) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready && s.cluster.Mirror.Healthy()
}

func (s *Syncer) setReady(ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = ready
}

// Run works until ctx ends, and then stops in order: the watch, the write under
// way (StopGrace), the session. A lost session is opened again. It returns nil
// after an ordered stop.
func (s *Syncer) Run(ctx context.Context) error {
	// The mirror outlives the workers that read it.
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, following := errgroup.WithContext(following)
	group.Go(func() error {
		if err := s.cluster.Mirror.Run(following); err != nil && following.Err() == nil {
			return fmt.Errorf("watch of cluster %q: %w", s.cluster.ID, err)
		}
		return nil
	})
	group.Go(func() error {
		defer stop()
		working, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(following, cancel)()
		s.origins.Open(working)
		err := s.terms(working)
		cancel()
		s.origins.Close()
		s.closeKeeper()
		return err
	})
	if s.cfg.Local != nil {
		// Of its own end it tells the others; it ends with the mirror that it reads.
		group.Go(func() error { return s.cfg.Local.Run(following, s.origins) })
	}
	return group.Wait()
}

// closeKeeper waits, for a while, until what an issuer gave last is stored.
func (s *Syncer) closeKeeper() {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.StopGrace)
	defer cancel()
	s.tokens.Close(ctx)
}

// terms opens one session after another until ctx ends, or the store asks for a newer
// version.
func (s *Syncer) terms(ctx context.Context) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 200*time.Millisecond, 15*time.Second
	for ctx.Err() == nil {
		err := s.cluster.Enter(ctx, s.metrics.serves)
		began := s.cluster.Now()
		if err == nil {
			err = s.lead(ctx)
		}
		switch {
		case ctx.Err() != nil:
			continue // an ordered stop: how the session ended was its consequence
		case errors.Is(err, session.ErrOutdated):
			return err
		case errors.Is(err, session.ErrNotRegistered), errors.Is(err, session.ErrOtherCluster):
			continue // which is waited out
		}
		if s.cluster.Now().Sub(began) > s.cfg.SessionTTL {
			wait.Reset()
		}
		pause := wait.NextBackOff()
		s.cluster.Log.Warn("session ended; opening another", "error", err, "pause", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// readsParts says whether the control plane may send parts here: this version reads them, and
// etcd answers one. Where there is no guard before it, it refuses.
func (s *Syncer) readsParts(ctx context.Context) (bool, error) {
	if s.cfg.Forms.Reads < record.FormParts {
		return false, nil
	}
	_, err := s.cluster.Store.Get(ctx, record.PartKey("probe", record.NewPartName()))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return true, nil
	case errors.Is(err, store.ErrDenied):
		return false, nil
	}
	return false, err
}

// ended says whether a session is of an earlier process that held the lock of this one, or an earlier one of this one.
func (s *Syncer) ended(held []byte) bool {
	before, err := store.Decode[record.Session](store.KV{Key: record.SessionKey(s.cluster.ID), Value: held})
	return err == nil && s.cfg.Lock != "" && before.Lock == s.cfg.Lock
}

// work opens a session and works in it. leads says whether no other syncer may write
// to this OSCAR at this moment.
func (s *Syncer) work(ctx context.Context, leads func() bool) error {
	parts, err := s.readsParts(ctx)
	if err != nil {
		return err
	}
	lease, err := s.cluster.Store.OpenSession(ctx, store.SessionConfig{
		Key: record.SessionKey(s.cluster.ID),
		Record: record.Session{V: record.Version, Instance: s.cluster.Instance, Version: version.Get().Version,
			Forms: s.cfg.Forms, StartedAt: record.At(s.cluster.Now()), Parts: parts, RunStates: true, Lock: s.cfg.Lock},
		TTL:    s.cfg.SessionTTL,
		Ended:  s.ended,
		Logger: s.cluster.Log,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err := lease.Close(context.WithoutCancel(ctx)); err != nil {
			s.cluster.Log.Warn("session not given back", "error", err)
		}
	}()
	s.cluster.Log.Info("session opened", "revision", lease.CreateRevision())

	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-lease.Done():
			cancel(session.ErrLost)
		case <-working.Done():
		}
	}()
	s.metrics.leads.Store(&leads)
	defer s.metrics.leads.Store(nil)
	return s.run(working, &session.Session{
		Cluster: s.cluster, Lease: lease, TTL: s.cfg.SessionTTL, Leads: leads, Started: s.cfg.Now(), Lose: cancel,
	})
}

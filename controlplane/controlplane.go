package controlplane

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/internal/auditlog"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Config of an instance. Zero durations mean their defaults.
type Config struct {
	Store *store.Store
	// Root opens the store as etcd's root, for the moments in which space has to be
	// made; nil where everybody may do that.
	Root func(ctx context.Context) (*store.Store, error)
	// Forms are what this version reads and writes; default record.OwnForms.
	Forms record.Forms
	// Identity is the control plane's age key: all instances have the same.
	Identity *seal.Identity
	// Access admits clusters that join to etcd; nil when etcd has no users.
	Access Access
	// Users keeps etcd's users as the registrations are; nil when etcd has none, or
	// when only others may change them.
	Users Users
	// Limits of what one cluster may write; who passes them is revoked. Without Users
	// nobody is.
	Limits access.Limits
	// DefaultCluster takes services that name no cluster; it may be empty.
	DefaultCluster string
	// PrepareDeadline is how long votes are waited for: 15 s.
	PrepareDeadline time.Duration
	// ApplyGrace is added to the longest expected delay of a write queue: 120 s.
	ApplyGrace time.Duration
	// PrefetchGrace is added when images are prefetched: 400 s.
	PrefetchGrace time.Duration
	// MaxQueueDelay is the longest write queue that a creation is put behind: 15 min.
	MaxQueueDelay time.Duration
	// KeepResult is how long aborted and rolled back creations are kept: 24 h.
	KeepResult time.Duration
	// KeepRequest is how long an idempotency record is kept: 24 h.
	KeepRequest time.Duration
	// KeepDeleted is how long a deleted replica is remembered: 90 days.
	KeepDeleted time.Duration
	// KeepAudit is how many entries of the audit are kept: 50,000.
	KeepAudit int
	// AuditLog is where the audit is exported to; nil for nowhere.
	AuditLog *auditlog.Log
	// RefreshTokenMaxAge is how old a refresh token may be before its owner is told to
	// give another one: 30 days; negative never tells.
	RefreshTokenMaxAge time.Duration
	// SweepInterval is the time between two clean-ups: 10 min.
	SweepInterval time.Duration
	// SpaceInterval is the time between two looks at etcd's space: 5 s.
	SpaceInterval time.Duration
	// EtcdRetention is the history that is kept in etcd when its space is short; 0 keeps all.
	EtcdRetention time.Duration
	// Deciders is how many federations are decided at once: 8.
	Deciders int
	// JobsPerFederation and JobsPerUser bound the jobs in flight: 10,000 and 20,000.
	JobsPerFederation, JobsPerUser int
	// RequestsPerUser bounds the idempotency records of one account: 500,000.
	RequestsPerUser int
	// BytesPerUser bounds what one user has in etcd; 0 is an eighth of etcd's quota, and
	// at least 64 MiB.
	BytesPerUser int64
	// KeepJobs is for how long jobs that have ended are kept, and KeepJobsEach how many
	// of each federation: 7 days, 10,000.
	KeepJobs     time.Duration
	KeepJobsEach int
	// LostAfter is for how long a cluster must have had no session before a job that it
	// has claimed at most goes elsewhere: 10 s.
	LostAfter time.Duration
	// OfferPatience is how long a Job that a member offers may stand frozen while nobody
	// takes it: 60 s.
	OfferPatience time.Duration
	// EndpointNetworks are networks that members of type endpoint may be in although they
	// are not of the public internet.
	EndpointNetworks []netip.Prefix
	// JobPause is how long a job rests after its first refusal, doubled with each: 0.5 s.
	JobPause time.Duration
	// Witness is a file in which this instance keeps what it knows to be committed, so
	// that it notices when the store was restored; empty for none.
	Witness string
	// Restored says that the store was restored from a backup, which an instance
	// without a witness cannot know. It is for one start of one instance.
	Restored bool
	// Now is the clock; skew moves when something is decided, never what.
	Now func() time.Time
	// FailPoint is called with the name of each point that FailPoints and JobFailPoints
	// list, and of a few more; nil is off.
	FailPoint func(name string)
	Logger    *slog.Logger
	Registry  prometheus.Registerer
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Forms == (record.Forms{}) {
		c.Forms = record.OwnForms()
	}
	def(&c.PrepareDeadline, 15*time.Second)
	def(&c.ApplyGrace, 120*time.Second)
	def(&c.PrefetchGrace, 400*time.Second)
	def(&c.MaxQueueDelay, 15*time.Minute)
	def(&c.KeepResult, 24*time.Hour)
	def(&c.KeepRequest, 24*time.Hour)
	def(&c.KeepDeleted, 90*24*time.Hour)
	def(&c.RefreshTokenMaxAge, 30*24*time.Hour)
	def(&c.SweepInterval, 10*time.Minute)
	def(&c.KeepJobs, 7*24*time.Hour)
	def(&c.LostAfter, 10*time.Second)
	def(&c.JobPause, 500*time.Millisecond)
	def(&c.OfferPatience, time.Minute)
	count := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	count(&c.JobsPerFederation, 10_000)
	count(&c.JobsPerUser, 20_000)
	count(&c.KeepJobsEach, 10_000)
	count(&c.RequestsPerUser, 500_000)
	if c.KeepAudit <= 0 {
		c.KeepAudit = 50_000
	}
	if c.Deciders == 0 {
		c.Deciders = 8
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	return c
}

// ControlPlane is one instance. Its methods may be called once Ready is closed.
type ControlPlane struct {
	cfg      Config
	store    *store.Store
	identity *seal.Identity
	sealer   *seal.Sealer
	mirror   *store.Mirror
	state    *state
	decider  *decider
	// tokenKey makes the tokens of lives, doorKey those for the control plane.
	tokenKey []byte
	doorKey  []byte
	planKey  []byte
	markKey  []byte
	// proofKey authenticates the challenges of renewals.
	proofKey []byte
	// relay holds the streams of syncers; streamKey authenticates the proofs of those who
	// open one, and proofs were used. instance names this process to them.
	relay     *relay.Hub
	direct    direct
	streamKey []byte
	proofs    proofs
	instance  string
	// outdated gets why this version may not work with the store any more.
	outdated chan error
	ready    chan struct{}
	steps    *prometheus.CounterVec
	turns    turns
	space    *store.SpaceWatch
	// ended queues clusters whose session has ended.
	ended workqueue.TypedRateLimitingInterface[string]
	// lost queues clusters whose orphans are to be looked at.
	lost workqueue.TypedRateLimitingInterface[string]
	// departed queues clusters that are being removed, or were.
	departed workqueue.TypedRateLimitingInterface[string]
	// read queues reports that a refresh token was read.
	read workqueue.TypedRateLimitingInterface[string]
	// tokens queues federations whose tokens are to be looked after.
	tokens workqueue.TypedRateLimitingInterface[string]
	// requests counts the idempotency records of each account.
	requests requestCounts
	// grantsSeen is when this instance first saw grants.
	grantsSeen clock.Sightings
	// auditIndex knows whose the entries of the audit are, and excess counts the readings
	// that are not entered.
	auditIndex *auditIndex
	excess     excessReadings
	// export is nil when the audit is not exported.
	export *auditExport
	// usage counts the bytes of each account.
	usage *usage
	// meter counts what clusters write, excessive queues those that write too much, and
	// revoked counts them.
	meter      *access.Meter
	excessive  workqueue.TypedRateLimitingInterface[string]
	revoked    *prometheus.CounterVec
	acceptor   *acceptor
	dispatcher *dispatcher
	jobDecider *jobDecider
	jobMetrics *jobMetrics
	needs      needsCache
	// toPost queues jobs that are at endpoints.
	toPost workqueue.TypedRateLimitingInterface[string]
	poster *poster
	// doubt holds the newest doubt of the store's history, and doubts counts them until
	// it has a new epoch.
	doubt chan doubt
	// metaChanged is told when the meta record was written.
	metaChanged chan struct{}
	// jobsSeen is when this instance first saw the pauses of jobs, and frozen Jobs.
	jobsSeen clock.Sightings
	doubts   atomic.Int64
	restores prometheus.Counter
}

// New makes an instance. It starts nothing.
func New(cfg Config) (*ControlPlane, error) {
	cfg = cfg.withDefaults()
	if cfg.Store == nil || cfg.Identity == nil {
		return nil, errors.New("controlplane: a store and an identity are needed")
	}
	c := &ControlPlane{
		cfg: cfg, store: cfg.Store, identity: cfg.Identity, sealer: cfg.Identity.Sealer(cfg.Now),
		tokenKey:  cfg.Identity.Derive("oscarfed service token"),
		doorKey:   cfg.Identity.Derive("oscarfed door token"),
		planKey:   cfg.Identity.Derive("oscarfed plan"),
		proofKey:  cfg.Identity.Derive("oscarfed renewal challenge"),
		markKey:   cfg.Identity.Derive("oscarfed refresh token"),
		streamKey: cfg.Identity.Derive("oscarfed relay"),
		instance:  newUID(),
		outdated:  make(chan error, 1),
		ready:     make(chan struct{}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_federation_steps_total", Help: "Steps that this instance took, by name.",
		}, []string{"step"}),
		restores: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oscarfed_store_restores_total", Help: "Restores of the store from an older state that this instance found out about.",
		}),
		revoked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_cluster_revocations_total", Help: "Clusters that this instance revoked, since they passed the limits of what they may write.",
		}, []string{"cluster"}),
		doubt: make(chan doubt, 1), metaChanged: make(chan struct{}, 1),
		acceptor: newAcceptor(), dispatcher: newDispatcher(), jobDecider: newJobDecider(),
	}
	if err := errors.Join(cfg.Registry.Register(c.steps), cfg.Registry.Register(c.restores), cfg.Registry.Register(c.revoked)); err != nil {
		return nil, fmt.Errorf("controlplane: register metrics: %w", err)
	}
	if err := c.watchSpace(); err != nil {
		return nil, err
	}
	hub, err := relay.New(relay.Config{Logger: cfg.Logger, Registry: cfg.Registry})
	if err != nil {
		return nil, fmt.Errorf("controlplane: the relay: %w", err)
	}
	c.relay, c.direct = hub, newDirect()
	c.excessive = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, time.Minute))
	c.meter = access.NewMeter(cfg.Limits, cfg.Now, func(cluster string) { c.excessive.Add(cluster) })
	c.usage = newUsage(cfg.Now, cfg.EtcdRetention)
	c.auditIndex = newAuditIndex()
	tap := taps{&c.requests, c.usage, c.auditIndex}
	if cfg.AuditLog != nil {
		c.export = newAuditExport(cfg.AuditLog)
		tap = append(tap, c.export)
	}
	if cfg.Users != nil {
		tap = append(tap, c.meter)
	}
	c.mirror = cfg.Store.NewMirror(store.MirrorConfig{
		Prefixes: []string{record.Root},
		Tap:      tap,
		OnRelist: c.relisted,
		Skip: func(key string) bool {
			switch record.ParseKey(key).Kind {
			case record.KindSpec, record.KindHistory, record.KindSecrets, record.KindRequest, record.KindTokens, record.KindJoin, record.KindAudit,
				record.KindEvent, record.KindAssignedEvent, record.KindOfferedEvent, record.KindDecision:
				return true
			}
			return false
		},
	})
	c.state = newState(c.mirror, cfg.Now)
	c.poster = newPoster(cfg.EndpointNetworks)
	c.toPost = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, 10*time.Second))
	if c.jobMetrics, err = newJobMetrics(cfg.Registry, c.state); err != nil {
		return nil, fmt.Errorf("controlplane: register metrics: %w", err)
	}
	c.decider = &decider{
		store: cfg.Store, state: c.state, now: cfg.Now, log: cfg.Logger,
		limits: limits{prepareDeadline: cfg.PrepareDeadline, applyGrace: cfg.ApplyGrace, prefetchGrace: cfg.PrefetchGrace, maxDelay: cfg.MaxQueueDelay, keepResult: cfg.KeepResult},
		steps:  func(step string) { c.steps.WithLabelValues(step).Inc() },
		fail:   c.fail,
		leave:  c.leaveCluster,
		doubt:  c.doubtful,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 10*time.Second)),
	}
	c.lost = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, time.Minute))
	c.ended = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute))
	c.tokens = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 10*time.Second))
	c.departed = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 10*time.Second))
	c.read = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, time.Minute))
	c.state.subscribe(c.stateChanged)
	c.state.subscribe(c.touched)
	c.state.subscribe(c.jobsChanged)
	return c, nil
}

// Run takes steps until ctx ends. It owns every goroutine that it starts.
func (c *ControlPlane) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.mirror.Run(ctx) })
	g.Go(func() error { return c.watchMinimum(ctx) })
	g.Go(func() error { return c.space.Run(ctx) })
	g.Go(func() error { c.streams(ctx); return nil })
	g.Go(func() error {
		<-ctx.Done()
		c.decider.queue.ShutDown()
		c.ended.ShutDown()
		c.lost.ShutDown()
		c.departed.ShutDown()
		c.excessive.ShutDown()
		c.read.ShutDown()
		c.tokens.ShutDown()
		c.toPost.ShutDown()
		return nil
	})
	g.Go(func() error {
		if err := c.patiently(ctx, "it cannot be read yet", func() error { return c.admitted(ctx) }); err != nil {
			return fmt.Errorf("read the store: %w", err)
		}
		select {
		case <-c.mirror.Synced():
		case <-ctx.Done():
			return ctx.Err()
		}
		c.state.refresh()
		if err := c.suits(); err != nil {
			return err
		}
		if err := c.recognise(ctx); err != nil {
			return fmt.Errorf("recognise the store: %w", err)
		}
		if err := c.patiently(ctx, "it is not prepared yet", func() error { return c.found(ctx) }); err != nil {
			return fmt.Errorf("prepare the store: %w", err)
		}
		announced := make(chan struct{})
		g.Go(func() error { c.announce(ctx, sync.OnceFunc(func() { close(announced) })); return nil })
		<-announced
		close(c.ready)
		if c.export != nil {
			g.Go(func() error { return c.exportAudit(ctx) })
		}
		g.Go(func() error { return c.sweep(ctx) })
		g.Go(func() error { return c.watchHistory(ctx) })
		g.Go(func() error { return c.acceptJobs(ctx) })
		g.Go(func() error { return c.dispatch(ctx) })
		g.Go(func() error { return c.decideJobs(ctx) })
		for range posts {
			g.Go(func() error { c.postJobs(ctx); return nil })
		}
		g.Go(func() error { c.noteEnds(ctx); return nil })
		g.Go(func() error { c.orphans(ctx); return nil })
		g.Go(func() error { c.removals(ctx); return nil })
		g.Go(func() error { c.readings(ctx); return nil })
		if c.cfg.Users != nil {
			g.Go(func() error { c.keepUsers(ctx); return nil })
			g.Go(func() error { c.revocations(ctx); return nil })
		}
		for range couriers {
			g.Go(func() error { c.courier(ctx); return nil })
		}
		for range c.cfg.Deciders {
			g.Go(func() error { c.decider.work(ctx); return nil })
		}
		return c.state.run(ctx)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// stateChanged passes on what a refresh of the state has seen.
func (c *ControlPlane) stateChanged(news *Changes) {
	for _, err := range news.Corrupt {
		c.cfg.Logger.Error("a record cannot be read and is taken as absent", "error", err)
	}
	for key, word := range news.Strange {
		c.cfg.Logger.Error("a newer version has written a record, which is left as it is", "key", key, "word", word)
	}
	if news.Meta != nil {
		c.noteMinimum(news.Meta.Minimum)
		nudge(c.metaChanged)
	}
	for _, cluster := range news.Ended {
		c.ended.Add(cluster)
	}
	for _, cluster := range news.Departed {
		c.departed.Add(cluster)
		c.lost.Add(cluster)
	}
	for _, key := range news.Readings {
		c.read.Add(key)
	}
	for _, cluster := range news.Forgiven {
		c.meter.Forgive(cluster)
	}
}

// touched queues what a change of the state concerns.
func (c *ControlPlane) touched(news *Changes) {
	if len(news.Federations)+len(news.Clusters) == 0 {
		return
	}
	federations, clusters := slices.Sorted(maps.Keys(news.Federations)), slices.Sorted(maps.Keys(news.Clusters))
	c.decider.touched(federations, clusters)
	var held []string
	c.state.read(func(v *View) {
		for _, uid := range federations {
			if v.custody[uid] != nil {
				held = append(held, uid)
			}
		}
		held = append(held, v.inCustody(clusters)...)
	})
	for _, uid := range held {
		c.tokens.Add(uid)
	}
	for _, id := range clusters {
		if id != "" {
			c.lost.Add(id)
		}
	}
}

// fail passes a fail point of this package.
func (c *ControlPlane) fail(point string) {
	if c.cfg.FailPoint != nil {
		c.cfg.FailPoint(failPrefix + point)
	}
}

// Ready is closed once requests can be served.
func (c *ControlPlane) Ready() <-chan struct{} { return c.ready }

// admitted says whether etcd lets us read. The mirror would ask for ever.
func (c *ControlPlane) admitted(ctx context.Context) error {
	_, err := c.store.Get(ctx, record.MetaKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// found writes the meta record of an empty store; of two instances one does. Done twice
// it finds what it did.
func (c *ControlPlane) found(ctx context.Context) error {
	res, err := c.store.Update(ctx, store.Update{
		Keys: []string{record.MetaKey},
		Build: func(v store.View, tx *store.Txn) error {
			if kv, ok := v.KV(record.MetaKey); ok {
				return c.sameIdentity(kv)
			}
			tx.Expect(record.MetaKey)
			tx.Put(record.MetaKey, record.Meta{
				V: record.Version, Schema: 1, ControlPlane: newUID(), Epoch: newUID(),
				Recipient: c.identity.Recipient(), CreatedAt: record.At(c.cfg.Now()),
			})
			tx.Put(record.ElapsedKey, (*record.Elapsed)(nil).Pass(0, v.Revision, 0, 0))
			return nil
		},
	})
	if err != nil {
		return err
	}
	return c.state.wait(ctx, res.Revision)
}

// sameIdentity refuses to work with a key that the store was not founded with: it
// could open nothing, and every service token would be another one.
func (c *ControlPlane) sameIdentity(kv store.KV) error {
	meta, err := store.Decode[record.Meta](kv)
	if err != nil {
		return err
	}
	if meta.Recipient != c.identity.Recipient() {
		return fmt.Errorf("the identity file holds the key of %s, but this store was founded with that of %s: give all instances the same identity file",
			c.identity.Recipient(), meta.Recipient)
	}
	return nil
}

// fresh waits until the state is as new as the store is now, so that what is
// read afterwards is linearizable.
func (c *ControlPlane) fresh(ctx context.Context) error {
	_, err := c.freshWith(ctx, record.MetaKey)
	return err
}

// freshWith is fresh, and reads keys that the state does not have at the same revision.
func (c *ControlPlane) freshWith(ctx context.Context, keys ...string) (store.View, error) {
	if c.doubtful() {
		return store.View{}, &Error{Code: CodeUnavailable, RetryAfter: time.Second,
			Message: "the store was restored from an older state, and is being compared with what was seen before; try again in a moment"}
	}
	v, err := c.store.Read(ctx, keys...)
	if err != nil {
		return store.View{}, crossing(err)
	}
	if err := c.state.wait(ctx, v.Revision); err != nil {
		return store.View{}, crossing(err)
	}
	return v, nil
}

// serviceToken is the token of one life of a replica: an HMAC of its uid, so that
// every instance knows it and nobody else can guess it.
func (c *ControlPlane) serviceToken(replicaUID string) string {
	mac := hmac.New(sha256.New, c.tokenKey)
	mac.Write([]byte(replicaUID))
	return hex.EncodeToString(mac.Sum(nil))
}

// newUID is a UUIDv7: unique, and in the order of time.
func newUID() string { return uuid.Must(uuid.NewV7()).String() }

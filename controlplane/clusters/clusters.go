package clusters

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Config of a Controller.
type Config struct {
	Store    *store.Store
	State    *view.State
	Gate     *gate.Gate
	Identity *seal.Identity
	// Hub holds the streams of syncers to this instance, which Instance names to them.
	Hub      *relay.Hub
	Instance string
	// Access admits clusters that join to etcd; nil when etcd has no users.
	Access Access
	// Users keeps etcd's users as the registrations are; nil when etcd has none, or when
	// only others may change them.
	Users Users
	// Meter counts what clusters write.
	Meter *access.Meter
	// KeepDeleted is how long a deleted replica is remembered.
	KeepDeleted time.Duration
	Now         func() time.Time
	Logger      *slog.Logger
	Registry    prometheus.Registerer
}

// Controller registers, admits, revokes and removes clusters, and takes the streams of
// their syncers.
type Controller struct {
	cfg   Config
	store *store.Store
	state *view.State
	gate  *gate.Gate
	hub   *relay.Hub
	// proofKey authenticates the challenges of renewals, and streamKey the proofs of syncers
	// that open a stream. proofs are those that were used.
	proofKey, streamKey []byte
	proofs              proofs
	// tokens continue lists.
	tokens   *listing.Tokens
	instance string
	// ended queues sessions that have ended, departed the clusters that are being removed or
	// were, and excessive those that write too much.
	ended               *worker.Worker[view.EndedSession]
	departed, excessive *worker.Worker[string]
	meter               *access.Meter
	// oscars tracks since when clusters have another OSCAR than they were told.
	oscars  clock.FirstSeen
	revoked *prometheus.CounterVec
}

// New makes a Controller. It starts nothing.
func New(cfg Config) (*Controller, error) {
	c := &Controller{
		cfg: cfg, store: cfg.Store, state: cfg.State, gate: cfg.Gate, hub: cfg.Hub, instance: cfg.Instance, meter: cfg.Meter,
		proofKey:  cfg.Identity.Derive("oscarfed renewal challenge"),
		streamKey: cfg.Identity.Derive("oscarfed relay"),
		tokens:    listing.NewTokens("clusters", cfg.Identity.Derive("oscarfed list")),
		revoked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_cluster_revocations_total", Help: "Clusters that this instance revoked, since they passed the limits of what they may write.",
		}, []string{"cluster"}),
	}
	failed := func(what string) func(string, error) {
		return func(cluster string, err error) {
			cfg.Logger.Warn("a step of a cluster was not taken; it is tried again", "what", what, "cluster", cluster, "error", err)
		}
	}
	c.ended = worker.New(worker.Config[view.EndedSession]{
		Handle: once(c.noteEnd), MinBackoff: time.Second, MaxBackoff: time.Minute,
		OnError: func(session view.EndedSession, err error) {
			failed("note the end of its session")(session.Cluster, err)
		},
	})
	c.departed = worker.New(worker.Config[string]{
		Handle: once(c.removalStep), Stale: []error{gate.ErrStale},
		OnError: failed("its removal"),
	})
	c.excessive = worker.New(worker.Config[string]{
		Handle: once(c.revokeExcessive), MinBackoff: 50 * time.Millisecond, MaxBackoff: time.Minute, Stale: []error{gate.ErrStale},
		OnError: failed("revoke it, since it writes too much"),
	})
	cfg.State.Subscribe(c.stateChanged)
	cfg.State.Observe(c.forgive)
	return c, errors.Join(cfg.Registry.Register(c.revoked), cfg.Registry.Register(newConnectedGauge(cfg.State)))
}

// once is a handler that never asks to be called again.
func once[K comparable](do func(ctx context.Context, key K) error) func(context.Context, K) (time.Duration, error) {
	return func(ctx context.Context, key K) (time.Duration, error) { return 0, do(ctx, key) }
}

// stateChanged queues the clusters that a change of the state concerns.
func (c *Controller) stateChanged(news *view.Changes) {
	for _, session := range news.Ended {
		c.ended.Add(session)
	}
	for _, cluster := range news.Departed {
		c.departed.Add(cluster)
	}
}

// forgive has the meter forget what was written before a readmission, or another registration, is to be seen.
func (c *Controller) forgive(_ *view.View, news *view.Changes) {
	for _, cluster := range news.Forgiven {
		c.meter.Forgive(cluster)
	}
}

// Excessive has a cluster revoked that has passed the limits of what it may write.
func (c *Controller) Excessive(cluster string) { c.excessive.Add(cluster) }

// Run takes the steps of clusters until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { c.ended.Run(ctx); return ctx.Err() })
	g.Go(func() error { c.departed.Run(ctx); return ctx.Err() })
	if c.cfg.Users != nil {
		g.Go(func() error { c.keepUsers(ctx); return ctx.Err() })
		g.Go(func() error { c.excessive.Run(ctx); return ctx.Err() })
	}
	return g.Wait()
}

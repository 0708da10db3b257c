package recovery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/signal"
	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Config of a Controller.
type Config struct {
	Store       *store.Store
	State       *view.State
	Gate        *gate.Gate
	Federations *federations.Controller
	Tokens      *tokens.Controller
	Clusters    *clusters.Controller
	Identity    *seal.Identity
	// KeepDeleted is how long a deleted replica is remembered.
	KeepDeleted time.Duration
	// Witness is the file in which this instance keeps facts that it knows to be committed;
	// empty for none. Restored says that the store was restored from a backup.
	Witness  string
	Restored bool
	Now      func() time.Time
	Logger   *slog.Logger
	Registry prometheus.Registerer
}

// Controller detects that the store was restored, gives it a new epoch, and resolves what the
// clusters have and the store does not.
type Controller struct {
	cfg         Config
	store       *store.Store
	state       *view.State
	gate        *gate.Gate
	federations *federations.Controller
	tokens      *tokens.Controller
	clusters    *clusters.Controller
	identity    *seal.Identity
	// orphans queues clusters to check for orphans.
	orphans *worker.Worker[string]
	// suspicions holds the newest one.
	suspicions chan suspicion
	// metaChanged is sent when the meta record was written.
	metaChanged signal.Signal
	restores    prometheus.Counter
}

// New makes a Controller. It starts nothing.
func New(cfg Config) (*Controller, error) {
	c := &Controller{
		cfg: cfg, store: cfg.Store, state: cfg.State, gate: cfg.Gate, federations: cfg.Federations, tokens: cfg.Tokens,
		clusters: cfg.Clusters, identity: cfg.Identity,
		suspicions: make(chan suspicion, 1), metaChanged: signal.New(),
		restores: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oscarfed_store_restores_total", Help: "Restores of the store from an older state that this instance found out about.",
		}),
	}
	c.orphans = worker.New(worker.Config[string]{
		Handle:     c.orphansOf,
		MaxBackoff: time.Minute, Stale: []error{gate.ErrStale},
		OnError: func(cluster string, err error) {
			cfg.Logger.Warn("orphans were not dealt with; it is tried again", "cluster", cluster, "error", err)
		},
	})
	cfg.State.Subscribe(c.stateChanged)
	return c, errors.Join(cfg.Registry.Register(c.restores), cfg.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oscarfed_store_restores_seen", Help: "Connected clusters whose syncers saw the store go back to an older state, and no new epoch since.",
	}, c.restoresSeen)))
}

// stateChanged queues the clusters that a change of the state concerns.
func (c *Controller) stateChanged(news *view.Changes) {
	if news.Meta != nil {
		c.metaChanged.Send()
	}
	for _, cluster := range news.Departed {
		c.orphans.Add(cluster)
	}
	for cluster := range news.Clusters {
		if cluster != "" {
			c.orphans.Add(cluster)
		}
	}
	for _, r := range news.Records.Selfs {
		c.warnOfRestore(r)
	}
}

// Run settles restores and orphans until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.watchHistory(ctx) })
	g.Go(func() error { c.orphans.Run(ctx); return ctx.Err() })
	return g.Wait()
}

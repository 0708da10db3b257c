package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/events"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/forms"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/plan"
	"github.com/oscarfed/oscarfed/controlplane/recovery"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/runs"
	"github.com/oscarfed/oscarfed/controlplane/stats"
	"github.com/oscarfed/oscarfed/controlplane/support"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/controlplane/watch"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

// ControlPlane is one instance. Its use cases may be called once Ready is closed.
type ControlPlane struct {
	// The use cases, each in a package of its own.
	Requests    *request.Controller
	Tokens      *tokens.Controller
	Federations *federations.Controller
	Plans       *plan.Planner
	Jobs        *jobs.Controller
	Clusters    *clusters.Controller
	Runs        *runs.Controller
	Recovery    *recovery.Controller
	Forms       *forms.Controller
	Watch       *watch.Controller
	Events      *events.Controller
	Stats       *stats.Controller
	Support     *support.Controller

	cfg    Config
	mirror *store.Mirror
	state  *view.State
	gate   *gate.Gate
	// instance names this process to others.
	instance string
	ready    chan struct{}
}

// New makes an instance. It starts nothing.
func New(cfg Config) (*ControlPlane, error) {
	cfg = cfg.withDefaults()
	if cfg.Store == nil || cfg.Identity == nil {
		return nil, errors.New("controlplane: a store and an identity are needed")
	}
	c := &ControlPlane{
		cfg: cfg, instance: record.NewUID(), ready: make(chan struct{}),
	}
	counters := request.NewCounters(cfg.Now, cfg.EtcdRetention, cfg.AuditLog)
	meter := access.NewMeter(cfg.Limits, cfg.Now, func(cluster string) { c.Clusters.Excessive(cluster) })
	c.mirror = cfg.Store.NewMirror(store.MirrorConfig{
		Prefixes: []string{record.Root},
		Tap:      tapsOf(cfg, counters, meter),
		OnRelist: func(r store.Relist) { c.Recovery.Relisted(r) },
		Skip:     notMirrored,
		PackJobs: true,
		Remember: view.Shows,
	})
	c.state = view.NewState(c.mirror, cfg.Now)
	c.state.Subscribe(c.stateChanged)
	var err error
	if c.gate, err = gate.New(gate.Config{
		Store: cfg.Store, State: c.state, Root: cfg.Root, SpaceInterval: cfg.SpaceInterval, EtcdRetention: cfg.EtcdRetention,
		Now: cfg.Now, FailPoint: cfg.FailPoint, Logger: cfg.Logger, Registry: cfg.Registry,
	}); err == nil {
		err = c.wire(counters, meter)
	}
	if err != nil {
		return nil, fmt.Errorf("controlplane: %w", err)
	}
	return c, nil
}

// Run takes steps until ctx ends. It owns every goroutine that it starts.
func (c *ControlPlane) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.mirror.Run(ctx) })
	g.Go(func() error { return c.Forms.Watch(ctx) })
	g.Go(func() error { return c.gate.Run(ctx) })
	g.Go(func() error { defer c.Runs.Close(); c.Clusters.RunStreams(ctx); return nil })
	g.Go(func() error {
		if err := c.prepare(ctx); err != nil {
			return err
		}
		announced := make(chan struct{})
		g.Go(func() error { c.Forms.Announce(ctx, sync.OnceFunc(func() { close(announced) })); return nil })
		<-announced
		close(c.ready)
		g.Go(func() error { return c.sweep(ctx) })
		g.Go(func() error { return c.Requests.Run(ctx) })
		g.Go(func() error { c.Tokens.Run(ctx); return nil })
		g.Go(func() error { c.Federations.Run(ctx); return nil })
		g.Go(func() error { return c.Jobs.Run(ctx) })
		g.Go(func() error { return c.Clusters.Run(ctx) })
		g.Go(func() error { return c.Recovery.Run(ctx) })
		g.Go(func() error { return c.Stats.Run(ctx) })
		return c.state.Run(ctx)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Ready is closed once requests can be served.
func (c *ControlPlane) Ready() <-chan struct{} { return c.ready }

// stateChanged tells what is wrong with the store.
func (c *ControlPlane) stateChanged(news *view.Changes) {
	// With the cluster that has the record: what a hostile one writes hides no line about another's, or about ours.
	for _, err := range news.Corrupt {
		cluster := ""
		if corrupt, ok := errors.AsType[*store.CorruptError](err); ok {
			cluster = record.ParseKey(corrupt.Key).Cluster
		}
		c.cfg.Logger.Error("a record cannot be read and is taken as absent", "cluster", cluster, "error", err)
	}
	for key, word := range news.Strange {
		c.cfg.Logger.Error("a newer version has written a record, which is left as it is", "cluster", record.ParseKey(key).Cluster, "key", key, "word", word)
	}
}

package jobs

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/tracing"
	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Config of a Controller.
type Config struct {
	Store       *store.Store
	State       *view.State
	Gate        *gate.Gate
	Requests    *request.Controller
	Federations *federations.Controller
	Identity    *seal.Identity
	Sealer      *seal.Sealer
	// PerFederation and PerUser bound the jobs in flight.
	PerFederation, PerUser int
	// Weights are the shares of accounts and federations.
	Weights Weights
	// Keep is how long ended jobs are kept, and KeepAtMost how many.
	Keep       time.Duration
	KeepAtMost Kept
	// LostAfter is how long a cluster must have no session before its jobs, if it has claimed them
	// at most, go to another member.
	LostAfter time.Duration
	// EndpointNetworks are networks that members of type endpoint may be in although they
	// are not of the public internet.
	EndpointNetworks []netip.Prefix
	// Dial connects to endpoints.
	Dial   outbound.Dial
	Now    func() time.Time
	Logger *slog.Logger
	// Tracer makes a span of each step of a traced job; nil for none.
	Tracer   *tracing.Tracer
	Registry prometheus.Registerer
}

// Controller accepts jobs, chooses where they run, and takes their steps.
type Controller struct {
	cfg         Config
	store       *store.Store
	state       *view.State
	gate        *gate.Gate
	requests    *request.Controller
	federations *federations.Controller
	sealer      *seal.Sealer
	acceptor    *acceptor
	dispatcher  *dispatcher
	reconciler  *reconciler
	poster      *poster
	// posts queues jobs that are at endpoints.
	posts   *worker.Worker[string]
	metrics *metrics
	// seen is when this instance first saw the pauses of jobs, and frozen Jobs.
	seen clock.FirstSeen
	// needs caches the resource requests of each federation's jobs.
	needs needsCache
}

// New makes a Controller. It starts nothing.
func New(cfg Config) (*Controller, error) {
	c := &Controller{
		cfg: cfg, store: cfg.Store, state: cfg.State, gate: cfg.Gate, requests: cfg.Requests, federations: cfg.Federations,
		sealer:   cfg.Sealer,
		acceptor: newAcceptor(), dispatcher: newDispatcher(), reconciler: newReconciler(), poster: newPoster(cfg.EndpointNetworks, cfg.Dial),
	}
	order := newTurns(c.tenantOf)
	c.posts = worker.New(worker.Config[string]{
		Handle: func(ctx context.Context, id string) (time.Duration, error) {
			defer order.done(id)
			return c.postJob(ctx, id)
		},
		Order: order, Goroutines: posts, MinBackoff: 10 * time.Millisecond, Stale: []error{gate.ErrStale, gate.ErrFence},
		OnError: func(id string, err error) {
			cfg.Logger.Warn("a job was not handed to its endpoint; it is tried again", "job", id, "error", err)
		},
	})
	var err error
	c.metrics, err = newMetrics(cfg.Registry, cfg.State)
	cfg.State.Subscribe(c.stateChanged)
	return c, err
}

// Run accepts, assigns and reconciles jobs until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.acceptJobs(ctx) })
	g.Go(func() error { return c.dispatch(ctx) })
	g.Go(func() error { return c.reconcileJobs(ctx) })
	g.Go(func() error { c.posts.Run(ctx); return ctx.Err() })
	return g.Wait()
}

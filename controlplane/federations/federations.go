package federations

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/internal/tracing"
	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/seal"
)

// reconcilers is how many federations are reconciled at once.
const reconcilers = 8

// Config of a Controller.
type Config struct {
	Store    *store.Store
	State    *view.State
	Gate     *gate.Gate
	Requests *request.Controller
	Tokens   *tokens.Controller
	Identity *seal.Identity
	Sealer   *seal.Sealer
	// DefaultCluster takes services that name no cluster; it may be empty.
	DefaultCluster string
	// Limits are the durations that steps are decided by, and RefreshTokenMaxAge is how
	// old a refresh token may be before its owner is told to give another one.
	Limits             decide.Limits
	RefreshTokenMaxAge time.Duration
	// Step counts a step that was taken, by its name.
	Step   func(name string)
	Now    func() time.Time
	Logger *slog.Logger
	// Tracer makes a span of each step for a traced request; nil for none.
	Tracer *tracing.Tracer
}

// Controller creates, changes, deletes and shows federations, and takes their steps.
type Controller struct {
	cfg      Config
	store    *store.Store
	state    *view.State
	gate     *gate.Gate
	requests *request.Controller
	tokens   *tokens.Controller
	identity *seal.Identity
	sealer   *seal.Sealer
	limits   decide.Limits
	planKey  []byte
	// These continue lists.
	federationTokens, serviceTokens, replicaTokens *listing.Tokens
	// changing lets one change of a federation at a time be rendered here: of many concurrent
	// ones all but one would be rendered in vain. The compare of the federation's record makes
	// changes safe.
	changing gate.KeyedMutex
	// federations queues the federations to reconcile, and seen tracks when this instance first
	// saw their deadlines.
	federations *worker.Worker[string]
	seen        clock.FirstSeen
}

// New makes a Controller. It starts nothing.
func New(cfg Config) *Controller {
	c := &Controller{
		cfg: cfg, store: cfg.Store, state: cfg.State, gate: cfg.Gate, requests: cfg.Requests, tokens: cfg.Tokens,
		identity: cfg.Identity, sealer: cfg.Sealer, limits: cfg.Limits,
		planKey:          cfg.Identity.Derive("oscarfed plan"),
		federationTokens: listing.NewTokens("federations", cfg.Identity.Derive("oscarfed list")),
		serviceTokens:    listing.NewTokens("services", cfg.Identity.Derive("oscarfed list")),
		replicaTokens:    listing.NewTokens("replicas", cfg.Identity.Derive("oscarfed list")),
	}
	c.federations = worker.New(worker.Config[string]{
		Handle: c.reconcile, Goroutines: reconcilers, Stale: []error{gate.ErrStale},
		OnError: func(uid string, err error) {
			cfg.Logger.Warn("a step of a federation was not taken; it is tried again", "federation", uid, "error", err)
		},
	})
	cfg.State.Subscribe(c.stateChanged)
	return c
}

// Run reconciles federations until ctx ends.
func (c *Controller) Run(ctx context.Context) { c.federations.Run(ctx) }

// Reconcile queues federations.
func (c *Controller) Reconcile(uids ...string) {
	for _, uid := range uids {
		c.federations.Add(uid)
	}
}

// stateChanged queues the federations that a change of the state concerns.
func (c *Controller) stateChanged(news *view.Changes) {
	for uid := range news.Federations {
		c.federations.Add(uid)
	}
	if len(news.Clusters) == 0 {
		return
	}
	var near []string
	c.state.Read(func(v *view.View) {
		for cluster := range news.Clusters {
			near = slices.AppendSeq(near, v.OnCluster.Of(cluster))
		}
	})
	c.Reconcile(near...)
}

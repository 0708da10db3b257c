package tokens

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Config of a Controller.
type Config struct {
	Store    *store.Store
	State    *view.State
	Gate     *gate.Gate
	Identity *seal.Identity
	Sealer   *seal.Sealer
	// RefreshTokenMaxAge is how old a refresh token may be before its owner is told to
	// give another one; negative never tells.
	RefreshTokenMaxAge time.Duration
	// Step counts a step that was taken, by its name.
	Step   func(name string)
	Now    func() time.Time
	Logger *slog.Logger
}

// Controller makes the tokens of services, and passes access tokens and refresh tokens to
// the clusters that need them.
type Controller struct {
	cfg    Config
	store  *store.Store
	state  *view.State
	gate   *gate.Gate
	sealer *seal.Sealer
	// tokenKey makes the service tokens, controlPlaneKey the control-plane tokens, and markKey
	// the marks of refresh tokens.
	tokenKey, controlPlaneKey, markKey []byte
	// federations queues those whose tokens are to be reconciled.
	federations *worker.Worker[string]
	// grantsSeen tracks when this instance first saw grants.
	grantsSeen clock.FirstSeen
}

// New makes a Controller. It starts nothing.
func New(cfg Config) *Controller {
	c := &Controller{
		cfg: cfg, store: cfg.Store, state: cfg.State, gate: cfg.Gate, sealer: cfg.Sealer,
		tokenKey:        cfg.Identity.Derive("oscarfed service token"),
		controlPlaneKey: cfg.Identity.Derive("oscarfed door token"),
		markKey:         cfg.Identity.Derive("oscarfed refresh token"),
	}
	c.federations = worker.New(worker.Config[string]{
		Handle: c.reconcile, Goroutines: 4, Stale: []error{gate.ErrStale},
		OnError: func(uid string, err error) {
			cfg.Logger.Warn("a step of a federation's tokens was not taken; it is tried again", "federation", uid, "error", err)
		},
	})
	cfg.State.Subscribe(c.stateChanged)
	return c
}

// Run reconciles the tokens of federations until ctx ends.
func (c *Controller) Run(ctx context.Context) { c.federations.Run(ctx) }

// stateChanged queues the federations whose tokens a change concerns.
func (c *Controller) stateChanged(news *view.Changes) {
	if len(news.Federations)+len(news.Clusters) == 0 {
		return
	}
	var concerned []string
	c.state.Read(func(v *view.View) {
		for uid := range news.Federations {
			if v.Tokens.Has(uid) {
				concerned = append(concerned, uid)
			}
		}
		concerned = append(concerned, v.WithTokens(slices.Collect(maps.Keys(news.Clusters)))...)
	})
	for _, uid := range concerned {
		c.federations.Add(uid)
	}
}

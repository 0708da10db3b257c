package plan

import (
	"context"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Config of a Planner.
type Config struct {
	Store       *store.Store
	State       *view.State
	Gate        *gate.Gate
	Federations *federations.Controller
	Identity    *seal.Identity
	Voters      Voters
	// MaxQueueDelay is the longest write queue that a creation is put behind.
	MaxQueueDelay time.Duration
	Now           func() time.Time
}

// Voters tell what clusters would vote now, in the order of the questions.
type Voters interface {
	Votes(ctx context.Context, caller identity.Caller, questions []relay.Question) []v1.PlanVote
}

// Planner says what a definition would write, and where and why. It writes nothing.
type Planner struct {
	cfg         Config
	store       *store.Store
	state       *view.State
	gate        *gate.Gate
	federations *federations.Controller
	identity    *seal.Identity
	voters      Voters
}

// New makes a Planner.
func New(cfg Config) *Planner {
	return &Planner{cfg: cfg, store: cfg.Store, state: cfg.State, gate: cfg.Gate, federations: cfg.Federations, identity: cfg.Identity, voters: cfg.Voters}
}

package runs

import (
	"log/slog"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Config of a Controller.
type Config struct {
	State    *view.State
	Gate     *gate.Gate
	Tokens   *tokens.Controller
	Jobs     *jobs.Controller
	Identity *seal.Identity
	// Hub holds the streams of syncers to this instance.
	Hub *relay.Hub
	// DefaultCluster is the cluster of a storage request that names none; it may be empty.
	DefaultCluster string
	// Weights by which accounts and federations share the invocations of a cluster.
	Weights jobs.Weights
	// Dial connects to OSCARs.
	Dial   outbound.Dial
	Logger *slog.Logger
}

// Controller asks members through the streams of their syncers: it runs services, and
// reads logs and the keys of users.
type Controller struct {
	cfg    Config
	state  *view.State
	gate   *gate.Gate
	tokens *tokens.Controller
	jobs   *jobs.Controller
	relay  *relay.Hub
	direct direct
	// accountKey makes the words that tell accounts apart.
	accountKey []byte
}

// New makes a Controller.
func New(cfg Config) *Controller {
	return &Controller{
		cfg: cfg, state: cfg.State, gate: cfg.Gate, tokens: cfg.Tokens, jobs: cfg.Jobs, relay: cfg.Hub, direct: newDirect(cfg.Dial),
		accountKey: cfg.Identity.Derive("oscarfed relay"),
	}
}

// Close closes the connections that are idle.
func (c *Controller) Close() { c.direct.close() }

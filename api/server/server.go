package server

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/oscarfed/oscarfed/api"
	"github.com/oscarfed/oscarfed/api/server/middleware"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/internal/tracing"
)

// Defaults of Config.
const (
	DefaultMaxBody = 1 << 20
	DefaultWait    = 60 * time.Second
	// DefaultMaxWatches is enough for the pages and scripts that share a user.
	DefaultMaxWatches = 100
	// DefaultMaxChanges is enough for the scripts that share a user, while clusters are slow.
	DefaultMaxChanges = 500
	// DefaultMaxAnswers is as many as two clusters give at once.
	DefaultMaxAnswers = 256
	// DefaultMaxReads is enough for the pages and scripts that share a user, while clusters are slow.
	DefaultMaxReads = 100
	// DefaultMaxPlainReads is as many as one caller may begin in two seconds, and more.
	DefaultMaxPlainReads = 256
	// DefaultTimeout is what a use case may take besides what the caller waits for.
	DefaultTimeout = 30 * time.Second
)

// MaxWait is the longest ?wait= that is accepted.
const MaxWait = 10 * time.Minute

// UseCases are what the routes ask. Each resource's file says what it needs of its own.
type UseCases struct {
	Services    Services
	Federations Federations
	Clusters    Clusters
	Joins       Joins
	Plans       Plans
	Status      Status
	Storage     Storage
	Differences Differences
	Audit       Audit
	Usage       Usage
	Changes     Changes
	Events      Events
	Stats       Stats
	Support     Support
	Upgrades    Upgrades
	Tokens      Tokens
	Jobs        Jobs
	JobLogs     JobLogs
	Streams     Streams
	Invocations Invocations
}

// Config says what a Server needs and how much it allows.
type Config struct {
	UseCases      UseCases
	Authenticator identity.Authenticator
	Logger        *slog.Logger
	// Tracer makes a span of each request; nil for none.
	Tracer *tracing.Tracer
	// Registry takes the metrics of requests; Metrics serves all that is in it.
	Registry *prometheus.Registry
	// RateLimit in requests per second and caller; also in failed
	// authentications per second and address. 0 means no limit.
	RateLimit int
	// Now is the clock that ages are counted by; nil means time.Now.
	Now func() time.Time
	// MaxBody in bytes; 0 means DefaultMaxBody.
	MaxBody int64
	// MaxWatches of one caller at a time, reads that wait included; 0 means DefaultMaxWatches.
	MaxWatches int
	// MaxChanges of one caller at a time, those that wait for their outcome included; 0 means
	// DefaultMaxChanges.
	MaxChanges int
	// MaxAnswers of invocations and logs of one caller at a time; 0 means DefaultMaxAnswers.
	MaxAnswers int
	// MaxReads that ask clusters, but for invocations and logs, of one caller at a time; 0 means
	// DefaultMaxReads.
	MaxReads int
	// MaxPlainReads are the other reads of one caller at a time, until their answers are sent; 0 means
	// DefaultMaxPlainReads.
	MaxPlainReads int
	// DefaultWait is how long a creation waits for its outcome when the caller
	// does not say; 0 means DefaultWait.
	DefaultWait time.Duration
	// Timeout of a request besides its wait; 0 means DefaultTimeout.
	Timeout time.Duration
	// TrustedProxies are the networks of those whose forwarding headers are believed.
	TrustedProxies []netip.Prefix
	// OIDCGroups are the groups that let users in; clients offer them for a service's vo.
	OIDCGroups []string
	// LoginIssuers are told to those who want to log in.
	LoginIssuers []v1.LoginIssuer
	// Origins of browser pages that may call: "https://dashboard.example.org",
	// "https://*.example.org" or "*". None by default. Those that are named may send
	// what a form can, with the password that a browser remembers; "*" does not allow that.
	Origins []string
}

// Server answers the control plane's HTTP API. It is safe for concurrent use.
type Server struct {
	cp       UseCases
	auth     identity.Authenticator
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *middleware.Metrics
	limits   *middleware.Limits
	accepted *middleware.Accepted
	cfg      Config
	watchers *slots
	changes  *slots
	answers  *slots
	reads    *slots
	plain    *slots
	// drained is closed by Drain.
	drained chan struct{}
	drain   sync.Once
	router  chi.Router
	// description is openapi.yaml, of which all requests send the same bytes: nobody has to log in for it.
	description []byte
	// pageFiles are the files of the web page by name.
	pageFiles func() (map[string]pageFile, error)
}

// New makes a Server; it starts nothing. UseCases and Authenticator must be
// given.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = DefaultMaxBody
	}
	if cfg.MaxWatches <= 0 {
		cfg.MaxWatches = DefaultMaxWatches
	}
	if cfg.MaxChanges <= 0 {
		cfg.MaxChanges = DefaultMaxChanges
	}
	if cfg.MaxAnswers <= 0 {
		cfg.MaxAnswers = DefaultMaxAnswers
	}
	if cfg.MaxReads <= 0 {
		cfg.MaxReads = DefaultMaxReads
	}
	if cfg.MaxPlainReads <= 0 {
		cfg.MaxPlainReads = DefaultMaxPlainReads
	}
	if cfg.DefaultWait <= 0 {
		cfg.DefaultWait = DefaultWait
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	s := &Server{
		cp:          cfg.UseCases,
		auth:        cfg.Authenticator,
		log:         cfg.Logger,
		registry:    cfg.Registry,
		metrics:     middleware.NewMetrics(cfg.Registry),
		limits:      middleware.NewLimits(cfg.RateLimit, cfg.Logger),
		accepted:    middleware.NewAccepted(),
		watchers:    newSlots(cfg.MaxWatches, tooManyWatches, pingEvery),
		changes:     newSlots(cfg.MaxChanges, tooManyChanges, time.Second),
		answers:     newSlots(cfg.MaxAnswers, tooManyAnswers, time.Second),
		reads:       newSlots(cfg.MaxReads, tooManyReads, time.Second),
		plain:       newSlots(cfg.MaxPlainReads, tooManyPlain, time.Second),
		drained:     make(chan struct{}),
		description: []byte(api.OpenAPI),
		pageFiles:   sync.OnceValues(loadPage),
		cfg:         cfg,
	}
	s.router = s.routes()
	return s
}

// Handler answers requests.
func (s *Server) Handler() http.Handler { return s.router }

// Metrics answers with the registry in Prometheus' form. It has a listener of
// its own: it needs no credentials.
func (s *Server) Metrics() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{Registry: s.registry})
}

// Drain makes /health answer 503 from now on, so that no new requests are sent
// here while those in flight finish. It ends the watches.
func (s *Server) Drain() { s.drain.Do(func() { close(s.drained) }) }

// ready refuses requests that come before the control plane has recognised its store: it
// may be one that was restored, of which nothing is true yet.
func (s *Server) ready(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.cp.Status.Ready():
			next.ServeHTTP(w, r)
		default:
			s.fail(w, r, &fault.Error{Code: fault.CodeUnavailable, Message: "the control plane is starting; try again in a moment", RetryAfter: time.Second})
		}
	})
}

// fail answers a request with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	respond.Fail(s.log, w, r, err)
}

// handle turns an error of a handler into its answer.
func (s *Server) handle(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

// openAPI answers GET /openapi.yaml: the description of this API (OpenAPI 3.0, YAML).
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	respond.Body(w, http.StatusOK, "application/yaml", s.description)
}

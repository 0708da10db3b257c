package server

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/oscarfed/oscarfed/api"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// Defaults of Config.
const (
	DefaultRateLimit = 100
	DefaultMaxBody   = 1 << 20
	DefaultWait      = 60 * time.Second
	// DefaultMaxWatches is enough for the pages and scripts that share a user.
	DefaultMaxWatches = 100
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
	// Registry takes the metrics of requests; Metrics serves all that is in it.
	Registry *prometheus.Registry
	// RateLimit in requests per second and caller; also in failed
	// authentications per second and address. 0 means no limit.
	RateLimit int
	// MaxBody in bytes; 0 means DefaultMaxBody.
	MaxBody int64
	// MaxWatches of one caller at a time; 0 means DefaultMaxWatches.
	MaxWatches int
	// DefaultWait is how long a creation waits for its outcome when the caller
	// does not say; 0 means DefaultWait.
	DefaultWait time.Duration
	// Timeout of a request besides its wait; 0 means DefaultTimeout.
	Timeout time.Duration
	// TrustedProxies are the networks of those whose forwarding headers are believed.
	TrustedProxies []netip.Prefix
	// OIDCGroups are the groups that let users in; clients offer them for a service's vo.
	OIDCGroups []string
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
	metrics  *metrics
	limits   *limits
	accepted *accepted
	cfg      Config
	watchers *watchers
	// drained is closed by Drain.
	drained chan struct{}
	drain   sync.Once
	router  chi.Router
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
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = DefaultMaxBody
	}
	if cfg.MaxWatches <= 0 {
		cfg.MaxWatches = DefaultMaxWatches
	}
	if cfg.DefaultWait <= 0 {
		cfg.DefaultWait = DefaultWait
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	s := &Server{
		cp:       cfg.UseCases,
		auth:     cfg.Authenticator,
		log:      cfg.Logger,
		registry: cfg.Registry,
		metrics:  newMetrics(cfg.Registry),
		limits:   newLimits(cfg.RateLimit),
		accepted: newAccepted(),
		watchers: newWatchers(cfg.MaxWatches),
		drained:  make(chan struct{}),
		cfg:      cfg,
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

// routes is the whole API: a new path is added here and in openapi.yaml.
func (s *Server) routes() chi.Router {
	r := chi.NewRouter()
	r.Use(behindProxies(s.cfg.TrustedProxies), s.requestID, s.accessLog, s.measure, s.recoverer, notAPage)
	if len(s.cfg.Origins) > 0 {
		r.Use(crossOrigin(s.cfg.Origins))
	}
	r.Use(s.foreignPages(s.cfg.Origins), middleware.StripSlashes, middleware.GetHead, s.limitBody)
	r.NotFound(s.notFound)
	r.MethodNotAllowed(s.notFound)

	// Without credentials.
	r.With(asOSCAR, s.deadline, s.limitProbe).Get("/health", s.health)
	r.With(s.deadline, s.limitAddress).Get("/openapi.yaml", s.openAPI)
	// OSCAR's own paths.
	r.Group(func(r chi.Router) {
		r.Use(asOSCAR, s.ready, s.deadline, s.authenticate, s.limitCaller)
		r.Get("/system/info", s.handle(s.info))
		r.Get("/system/config", s.handle(s.config))
		r.Get("/system/status", s.handle(s.systemStatus))
		r.Get("/system/services", s.handle(s.listServices))
		r.Post("/system/services", s.handle(s.createService))
		r.Put("/system/services", s.handle(s.updateService))
		r.Get("/system/services/{service}", s.handle(s.getService))
		r.Delete("/system/services/{service}", s.handle(s.deleteService))
		r.Get(deploymentRoute, s.handle(s.getDeployment))
		r.Get(deploymentRoute+"/logs", s.handle(s.getDeploymentLogs))
		r.Get("/system/federation/{service}", s.handle(s.getMembers))
		r.Post("/system/federation/{service}", s.handle(s.addMembers))
		r.Put("/system/federation/{service}", s.handle(s.replaceMembers))
		r.Delete("/system/federation/{service}", s.handle(s.removeMembers))
	})
	// OSCAR's own, which the service itself may use by its token.
	r.Group(func(r chi.Router) {
		r.Use(asOSCAR, s.ready, s.deadline, s.authenticateService, s.limitCaller)
		r.Post("/job/{service}", s.handle(s.submitJob))
	})
	r.With(asOSCAR, s.ready, s.streamed(runTimeout), s.authenticateService, s.limitCaller, whileValid).Post(runRoute, s.handle(s.runService))
	r.Group(func(r chi.Router) {
		r.Use(asOSCAR, s.ready, s.streamed(logTimeout), s.authenticate, s.limitCaller, whileValid)
		r.Get(logsRoute, s.handle(s.listLogs))
		r.Get(logRoute, s.handle(s.getLog))
		r.Delete(logsRoute, s.handle(s.deleteLogs))
		r.Delete(logRoute, s.handle(s.deleteLog))
	})
	// Ours.
	r.With(s.ready, s.deadline, s.authenticateService, s.limitCaller).Get(replicasRoute, s.handle(s.getReplicas))
	r.Group(func(r chi.Router) {
		r.Use(s.ready, s.deadline, s.authenticate, s.limitCaller, s.refuseForms)
		r.Post(replicasRoute, s.handle(s.addReplicas))
		r.Put(replicasRoute, s.handle(s.replaceReplicas))
		r.Delete(replicasRoute, s.handle(s.removeReplicas))
		r.Get(replicasRoute+"/history", s.handle(s.history))
		r.Post(replicasRoute+"/rollback", s.handle(s.rollback))
		r.Put(replicasRoute+"/paused", s.handle(s.pause))
		r.Post(replicasRoute+"/rotate-token", s.handle(s.rotateToken))
		r.Get(refreshTokenRoute, s.handle(s.getRefreshToken))
		r.Put(refreshTokenRoute, s.handle(s.putRefreshToken))
		r.Delete(refreshTokenRoute, s.handle(s.deleteRefreshToken))
		r.Post("/system/plans", s.handle(s.planService))
		r.Get("/system/federations", s.handle(s.listFederations))
		r.Get("/system/federations/{federation}", s.handle(s.getFederation))
		r.Get("/system/deleted", s.handle(s.listDeleted))
		r.Get("/system/differences", s.handle(s.listDifferences))
		r.Post("/system/differences", s.handle(s.resolveDifference))
		r.Get("/system/audit", s.handle(s.listAudit))
		r.Get(jobsRoute, s.handle(s.listJobs))
		r.Get(jobRoute, s.handle(s.getJob))
		r.Get(jobRoute+"/explain", s.handle(s.explainJob))
		r.Post(jobRoute+"/cancel", s.handle(s.cancelJob))
		r.Post(jobRoute+"/replay", s.handle(s.replayJob))
		r.Post(jobRoute+"/resolve", s.handle(s.resolveJob))
		r.Get("/system/clusters", s.handle(s.listClusters))
		r.Post("/system/clusters", s.handle(s.registerCluster))
		r.Get("/system/clusters/{cluster}", s.handle(s.getCluster))
		r.Put("/system/clusters/{cluster}", s.handle(s.updateCluster))
		r.Delete("/system/clusters/{cluster}", s.handle(s.removeCluster))
		r.Put("/system/clusters/{cluster}/state", s.handle(s.setClusterState))
		r.Post("/system/clusters/{cluster}/join", s.handle(s.issueJoin))
	})
	// For syncers that have no credentials but a token, or a key.
	r.Group(func(r chi.Router) {
		r.Use(s.ready, s.deadline, s.limitAddress, s.refuseForms, s.stranger)
		r.Post("/system/join", s.handleStranger(s.join))
		r.Post("/system/join/challenge", s.handleStranger(s.challenge))
		r.Post("/system/join/renew", s.handleStranger(s.renew))
		r.Post("/system/relay/challenge", s.handleStranger(s.challengeRelay))
	})
	r.With(s.ready, s.limitAddress).Get(relayRoute, s.openRelay)
	return r
}

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
	writeBody(w, http.StatusOK, "application/yaml", []byte(api.OpenAPI))
}

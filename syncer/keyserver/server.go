package keyserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/connlimit"
	"github.com/oscarfed/oscarfed/syncer/origin"
)

// Site is the syncer that answers.
type Site interface {
	// OriginKeys gives the keys for a token: the token of a service, or an access token that
	// a job is posted with at this moment. The error is ErrUnknown for any other token, or
	// says why there are no keys now.
	OriginKeys(ctx context.Context, token string) (origin.Keys, error)
}

// ErrUnknown says that a token gives access to no keys.
var ErrUnknown = errors.New("the token is not known here")

// Config of a Server. Zero values mean their defaults.
type Config struct {
	// Listen is the address; Listener, when it is not nil, is used in its place, and
	// closed by Run.
	Listen   string
	Listener net.Listener
	// Refusals is how many refused requests a second are answered in the long run, and Burst
	// how many at once: 20 and 100. Further ones get 429. Requests with a known token are not
	// counted.
	Refusals float64
	Burst    int
	// Concurrent bounds the requests that are answered at the same time: DefaultConcurrent.
	Concurrent int
	// Connections bounds the open connections, and PerAddress those from one address: 256 and
	// 64.
	Connections, PerAddress int
	// Answer is how long one answer may take: 18 s. An OSCAR waits 20 s.
	Answer   time.Duration
	Logger   *slog.Logger
	Registry prometheus.Registerer
}

// DefaultConcurrent is how many requests are answered at the same time by default.
const DefaultConcurrent = 64

const (
	// maxHeader bounds the head of a request in bytes: access tokens have a few KiB.
	maxHeader = 24 << 10
	// maxToken bounds a token in bytes.
	maxToken = 16 << 10
	// stopGrace is how long answers under way may take when the server stops.
	stopGrace = 2 * time.Second
)

// Server answers the OSCAR beside the syncer.
type Server struct {
	cfg      Config
	refusals *rate.Limiter
	slots    chan struct{}
	requests *prometheus.CounterVec
}

// New makes a Server; it listens nowhere yet.
func New(cfg Config) (*Server, error) {
	if cfg.Refusals <= 0 {
		cfg.Refusals = 20
	}
	fill := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	fill(&cfg.Burst, 100)
	fill(&cfg.Concurrent, DefaultConcurrent)
	fill(&cfg.Connections, 256)
	fill(&cfg.PerAddress, 64)
	if cfg.Answer <= 0 {
		cfg.Answer = 18 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, refusals: rate.NewLimiter(rate.Limit(cfg.Refusals), cfg.Burst), slots: make(chan struct{}, cfg.Concurrent),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_syncer_local_requests_total",
			Help: "Requests of the local OSCAR for the keys of another cluster's MinIO, by outcome (answered, no_keys, refused, limited).",
		}, []string{"outcome"}),
	}
	if cfg.Registry != nil {
		if err := cfg.Registry.Register(s.requests); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return s, nil
}

// Run answers for site until ctx ends.
func (s *Server) Run(ctx context.Context, site Site) error {
	listener := s.cfg.Listener
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Listen); err != nil {
			return fmt.Errorf("the server for the local OSCAR: %w", err)
		}
	}
	server := &http.Server{
		Handler:           s.handler(site),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      s.cfg.Answer + 5*time.Second,
		IdleTimeout:       15 * time.Second,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	s.cfg.Logger.Info("answers the local OSCAR", "listen", listener.Addr().String())
	stopped := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close() // OSCAR repeats the requests that this breaks off
		}
	})()
	err := server.Serve(&limitedListener{Listener: listener, limit: connlimit.New(s.cfg.Connections, s.cfg.PerAddress)})
	if ctx.Err() != nil {
		<-stopped
		return nil
	}
	return fmt.Errorf("the server for the local OSCAR: %w", errors.Join(err, server.Close()))
}

func (s *Server) handler(site Site) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		default:
			s.empty(w, "limited", http.StatusServiceUnavailable)
			return
		}
		if r.Method != http.MethodGet || strings.TrimSuffix(r.URL.Path, "/") != "/system/config" {
			s.refuse(w, http.StatusNotFound)
			return
		}
		token, ok := bearer(r.Header)
		if !ok {
			s.refuse(w, http.StatusUnauthorized)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Answer)
		defer cancel()
		keys, err := site.OriginKeys(ctx, token)
		switch {
		case errors.Is(err, ErrUnknown):
			s.refuse(w, http.StatusUnauthorized)
		case err != nil:
			s.cfg.Logger.Warn("the local OSCAR was given no keys of the origin's MinIO", "error", err)
			s.empty(w, "no_keys", http.StatusServiceUnavailable)
		default:
			s.answer(w, keys)
		}
	})
}

// bearer reads the token of a request that has exactly one Authorization header.
func bearer(h http.Header) (string, bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, scheme == "Bearer" && token != "" && len(token) <= maxToken
}

// refuse answers with an error status and ends the connection.
func (s *Server) refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Connection", "close")
	if !s.refusals.Allow() {
		s.empty(w, "limited", http.StatusTooManyRequests)
		return
	}
	s.empty(w, "refused", status)
}

func (s *Server) empty(w http.ResponseWriter, outcome string, status int) {
	s.requests.WithLabelValues(outcome).Inc()
	w.WriteHeader(status)
}

// answer writes the fields of OSCAR's own answer that OSCAR reads.
func (s *Server) answer(w http.ResponseWriter, keys origin.Keys) {
	body, err := json.Marshal(struct {
		Config       struct{}            `json:"config"`
		MinIO        oscar.MinIOProvider `json:"minio_provider"`
		Repositories []string            `json:"allowed_image_repositories"`
	}{
		MinIO: oscar.MinIOProvider{
			Endpoint: keys.Endpoint, Verify: keys.Verify, Region: keys.Region, AccessKey: keys.AccessKey, SecretKey: string(keys.SecretKey),
		},
		Repositories: []string{},
	})
	if err != nil {
		s.empty(w, "no_keys", http.StatusInternalServerError) // strings and booleans always encode
		return
	}
	s.requests.WithLabelValues("answered").Inc()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body) // OSCAR asks again after a broken answer
}

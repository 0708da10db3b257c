package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/internal/signal"
)

// Relay keeps the streams of one syncer open.
type Relay struct {
	cfg      Config
	dialer   *dialer
	streams  prometheus.Gauge
	requests *prometheus.CounterVec
}

// New checks cfg. It dials nothing.
func New(cfg Config) (*Relay, error) {
	cfg = cfg.withDefaults()
	base, err := cfg.base()
	if err != nil {
		return nil, err
	}
	r := &Relay{
		cfg: cfg, dialer: &dialer{base: base, dial: cfg.Dial, tls: cfg.tls, timeout: cfg.Timeout},
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "oscarfed_syncer_relay_streams", Help: "Instances of the control plane that this syncer has a stream to.",
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_syncer_relay_requests_total",
			Help: "Requests of the control plane on streams, by kind and outcome: passed, or why not (broken, not_allowed, not_ours, busy, away, too_large).",
		}, []string{"request", "outcome"}),
	}
	if cfg.Registry != nil {
		if err := errors.Join(cfg.Registry.Register(r.streams), cfg.Registry.Register(r.requests)); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return r, nil
}

// mostInVain is how often a missing instance is looked for with the shortest pause: two instances of which one answers
// each time with the same chance are both found then. A proxy may lead a syncer to one instance for ever.
const mostInVain = 16

// streams are those of one Run, by instance.
type streams struct {
	mu         sync.Mutex
	byInstance map[string]net.Conn
	serving    sync.WaitGroup
	// lost receives a value when a stream has ended.
	lost signal.Signal
}

func (l *streams) instances() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]string, 0, len(l.byInstance))
	for id := range l.byInstance {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// Run keeps a stream to each instance that it finds, and serves site on them, until ctx ends. It
// then breaks off the requests that run.
func (r *Relay) Run(ctx context.Context, site Site) {
	handler := &drainingHandler{next: newHandler(site, r.cfg.Limits, func(what, outcome string) { r.requests.WithLabelValues(what, outcome).Inc() })}
	defer handler.close() // after the streams
	l := &streams{byInstance: map[string]net.Conn{}, lost: signal.New()}
	defer l.serving.Wait()
	// Random pauses keep a thousand syncers that lose an instance from dialling together.
	failing := backoff.NewExponentialBackOff()
	failing.InitialInterval, failing.MaxInterval, failing.RandomizationFactor = r.cfg.FirstPause, r.cfg.LastPause, 0.5
	looking := backoff.NewExponentialBackOff()
	looking.InitialInterval, looking.MaxInterval, looking.RandomizationFactor = r.cfg.Look/8, r.cfg.Look, 0.3
	told, inVain := "", 0
	for ctx.Err() == nil {
		d, err := r.dialer.open(ctx, site, l.instances())
		var pause time.Duration
		switch {
		case err == nil:
			failing.Reset()
			looking.Reset()
			told, inVain = "", 0
			r.startServing(ctx, l, d.instance, d.stream, handler)
			// There may be another instance. The random pause spreads the syncers that look
			// for it.
			pause = time.Duration(rand.Float64() * float64(r.cfg.FirstPause)) //nolint:gosec // it spreads load
		case errors.Is(err, errConnected):
			failing.Reset()
			told = ""
			if len(l.instances()) < d.running && inVain < mostInVain {
				looking.Reset() // which instance answers is chance
				inVain++
			}
			pause = looking.NextBackOff()
		case ctx.Err() != nil:
			return
		default:
			pause = failing.NextBackOff()
			level := slog.LevelDebug // a repeated error is logged once
			if text := err.Error(); text != told {
				level, told = slog.LevelWarn, text
			}
			r.cfg.Logger.Log(ctx, level, "the control plane has no stream of this syncer yet", "error", err, "streams", len(l.instances()), "pause", pause)
		}
		if len(l.instances()) >= maxStreams {
			pause = r.cfg.Look
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		case <-l.lost:
			looking.Reset()
			inVain = 0
			if !clock.Sleep(ctx, failing.NextBackOff()) {
				return
			}
		}
	}
}

// drainingHandler passes requests to next until it is closed. close waits for those that run:
// http.Server.Close does not.
type drainingHandler struct {
	next   http.Handler
	mu     sync.Mutex
	closed bool
	active sync.WaitGroup
}

func (h *drainingHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.begin() {
		panic(http.ErrAbortHandler)
	}
	defer h.active.Done()
	h.next.ServeHTTP(w, r)
}

func (h *drainingHandler) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.active.Add(1)
	}
	return !h.closed
}

func (h *drainingHandler) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.active.Wait()
}

// startServing serves a connection beside the others. An earlier connection of the same instance
// is dead: an instance refuses a second stream.
func (r *Relay) startServing(ctx context.Context, l *streams, instance string, conn net.Conn, handler http.Handler) {
	l.mu.Lock()
	old := l.byInstance[instance]
	l.byInstance[instance] = conn
	r.streams.Set(float64(len(l.byInstance)))
	l.mu.Unlock()
	if old != nil {
		_ = old.Close() // it is dead
	}
	began := time.Now()
	r.cfg.Logger.Info("connected to the control plane", "instance", instance)
	l.serving.Go(func() {
		r.serve(ctx, conn, handler)
		l.mu.Lock()
		if l.byInstance[instance] == conn {
			delete(l.byInstance, instance)
		}
		r.streams.Set(float64(len(l.byInstance)))
		l.mu.Unlock()
		r.cfg.Logger.Info("not connected to the control plane any more", "instance", instance, "lasted", time.Since(began).Round(time.Millisecond).String())
		l.lost.Send()
	})
}

// Limits of the server on a stream.
const (
	// maxConcurrent bounds the requests of one instance; Limits bounds those of all instances.
	maxConcurrent = 256
	maxHead       = 32 << 10 // bytes
	// pingAfter is the silence after which a stream is pinged.
	pingAfter = 15 * time.Second
	// Bytes of requests' bodies that wait to be read. All of a connection have space at once: one
	// that OSCAR does not take keeps no other one from coming.
	connectionBuffer = maxConcurrent * v1.RelayBuffer
)

// serve answers on a connection until it or ctx ends, and closes it.
func (r *Relay) serve(ctx context.Context, conn net.Conn, handler http.Handler) {
	up, ok := conn.(*upgraded)
	if !ok {
		_ = conn.Close() // only dialer makes connections
		return
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: handler, Protocols: protocols, MaxHeaderBytes: maxHead, ReadHeaderTimeout: r.cfg.Timeout,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxConcurrent, SendPingTimeout: pingAfter, PingTimeout: pingAfter, WriteByteTimeout: 2 * pingAfter,
			MaxReceiveBufferPerStream: v1.RelayBuffer, MaxReceiveBufferPerConnection: connectionBuffer,
		},
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(r.cfg.Logger.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	_ = server.Serve(listenOn(up)) // the end of the connection is its end
	_ = up.Close()                 // if the server did not
}

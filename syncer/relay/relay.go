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
)

// Relay keeps the streams of one syncer.
type Relay struct {
	cfg      Config
	caller   *caller
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
	conf, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	r := &Relay{
		cfg: cfg, caller: &caller{base: base, dial: cfg.Dial, tls: conf, timeout: cfg.Timeout},
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

// live are the streams of one Run, by instance.
type live struct {
	mu  sync.Mutex
	of  map[string]net.Conn
	all sync.WaitGroup
	// lost holds a token when a stream has ended.
	lost chan struct{}
}

func (l *live) instances() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]string, 0, len(l.of))
	for id := range l.of {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// Run keeps a stream to each instance that is found, and answers for site, until ctx
// ends. Requests under way are then cut off.
func (r *Relay) Run(ctx context.Context, site Site) {
	door := &door{next: newHandler(site, r.cfg.Limits, func(what, outcome string) { r.requests.WithLabelValues(what, outcome).Inc() })}
	defer door.close() // after the streams
	l := &live{of: map[string]net.Conn{}, lost: make(chan struct{}, 1)}
	defer l.all.Wait()
	// A thousand syncers that lose an instance at once do not come back at once.
	failing := backoff.NewExponentialBackOff()
	failing.InitialInterval, failing.MaxInterval, failing.RandomizationFactor = r.cfg.FirstPause, r.cfg.LastPause, 0.5
	looking := backoff.NewExponentialBackOff()
	looking.InitialInterval, looking.MaxInterval, looking.RandomizationFactor = r.cfg.Look/8, r.cfg.Look, 0.3
	told := ""
	for ctx.Err() == nil {
		conn, instance, err := r.caller.open(ctx, site, l.instances())
		var pause time.Duration
		switch {
		case err == nil:
			failing.Reset()
			looking.Reset()
			told = ""
			r.begin(ctx, l, instance, conn, door)
			// Perhaps there is another instance. Other syncers look for it, too: not all at the
			// same moment.
			pause = time.Duration(rand.Float64() * float64(r.cfg.FirstPause)) //nolint:gosec // it spreads load
		case errors.Is(err, errConnected):
			failing.Reset()
			told = ""
			pause = looking.NextBackOff()
		case ctx.Err() != nil:
			return
		default:
			pause = failing.NextBackOff()
			level := slog.LevelDebug // the same again and again is said once
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
			if !sleep(ctx, failing.NextBackOff()) {
				return
			}
		}
	}
}

// door lets requests in until it is closed, which waits for those that are inside: a server
// that is closed leaves its handlers behind.
type door struct {
	next   http.Handler
	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !d.enter() {
		panic(http.ErrAbortHandler)
	}
	defer d.inside.Done()
	d.next.ServeHTTP(w, r)
}

func (d *door) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.inside.Add(1)
	}
	return !d.closed
}

func (d *door) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.inside.Wait()
}

// sleep waits; false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// begin serves a connection beside the others. One of the same instance has died: the
// instance would have said otherwise.
func (r *Relay) begin(ctx context.Context, l *live, instance string, conn net.Conn, handler http.Handler) {
	l.mu.Lock()
	old := l.of[instance]
	l.of[instance] = conn
	r.streams.Set(float64(len(l.of)))
	l.mu.Unlock()
	if old != nil {
		_ = old.Close() // it is of no more use
	}
	began := time.Now()
	r.cfg.Logger.Info("connected to the control plane", "instance", instance)
	l.all.Go(func() {
		r.serve(ctx, conn, handler)
		l.mu.Lock()
		if l.of[instance] == conn {
			delete(l.of, instance)
		}
		r.streams.Set(float64(len(l.of)))
		l.mu.Unlock()
		r.cfg.Logger.Info("not connected to the control plane any more", "instance", instance, "lasted", time.Since(began).Round(time.Millisecond).String())
		select {
		case l.lost <- struct{}{}:
		default:
		}
	})
}

// Limits of the server on a stream.
const (
	// maxAtOnce requests of one instance; Limits bounds those of all of them.
	maxAtOnce = 256
	maxHead   = 32 << 10 // bytes
	// Bytes of requests' bodies that wait to be read.
	bufferOfARequest    = 256 << 10
	bufferOfAConnection = 2 << 20
)

// serve answers on a connection until it or ctx ends, and closes it.
func (r *Relay) serve(ctx context.Context, conn net.Conn, handler http.Handler) {
	up, ok := conn.(*upgraded)
	if !ok {
		_ = conn.Close() // nobody else makes connections
		return
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: handler, Protocols: protocols, MaxHeaderBytes: maxHead, ReadHeaderTimeout: r.cfg.Timeout,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxAtOnce, SendPingTimeout: r.cfg.Ping, PingTimeout: r.cfg.Ping, WriteByteTimeout: 2 * r.cfg.Ping,
			MaxReceiveBufferPerStream: bufferOfARequest, MaxReceiveBufferPerConnection: bufferOfAConnection,
		},
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(r.cfg.Logger.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	_ = server.Serve(listenOn(up)) // the end of the connection is its end
	_ = up.Close()                 // if it was not closed
}

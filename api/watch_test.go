package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/api"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
)

// viewAt is the example as seen at a revision of the store.
func viewAt(revision int64, phase record.Phase) *controlplane.Replicas {
	v := changed().Replicas
	v.StreamRevision, v.Phase = revision, phase
	return &v
}

// eventOf is how a view goes over the wire.
func eventOf(revision int64, phase string) string {
	return fmt.Sprintf("event: replicas\nid: %d\ndata: %s\n\n", revision, strings.Replace(contractReplicas, `"degraded"`, `"`+phase+`"`, 1))
}

// source is a federation that a test changes: what is sent to it is what a watch
// tells, and an error ends the watch.
type source struct {
	views chan any
	since chan int64
	// over has what the context of each watch ended with.
	over chan error
}

func newSource() *source {
	return &source{views: make(chan any), since: make(chan int64, 100), over: make(chan error, 100)}
}

func (s *source) watch(ctx context.Context, since int64, fn func(*controlplane.Replicas) error) error {
	s.since <- since
	for {
		select {
		case v := <-s.views:
			if err, ok := v.(error); ok {
				return err
			}
			if err := fn(v.(*controlplane.Replicas)); err != nil {
				s.over <- err
				return err
			}
		case <-ctx.Done():
			s.over <- context.Cause(ctx)
			return context.Cause(ctx)
		}
	}
}

func (s *source) fake() *fake {
	return &fake{watch: s.watch, replicas: func() *controlplane.Replicas { return viewAt(0, "ready") }, health: controlplane.Health{OK: true}}
}

// reading is a client in a bubble: it has what was written to it. It may stop
// reading, and then a write ends at its deadline.
type reading struct {
	t      *testing.T
	header http.Header
	status int
	gone   context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	body     bytes.Buffer
	flushed  int
	deadline time.Time
	stuck    bool
	takes    time.Duration
}

// slow makes each write take some time.
func (c *reading) slow(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takes = d
}

func watchIn(t *testing.T, handler http.Handler, path string, headers ...string) *reading {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
	r.SetBasicAuth(user, password)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	c := &reading{t: t, header: http.Header{}, status: 200, gone: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer cancel()
		handler.ServeHTTP(c, r)
	}()
	synctest.Wait()
	return c
}

func (c *reading) Header() http.Header    { return c.header }
func (c *reading) WriteHeader(status int) { c.status = status }

func (c *reading) Write(p []byte) (int, error) {
	c.mu.Lock()
	stuck, deadline, takes := c.stuck, c.deadline, c.takes
	c.mu.Unlock()
	<-time.After(takes)
	if stuck {
		if deadline.IsZero() {
			c.t.Error("a write without a deadline")
		}
		<-time.After(time.Until(deadline))
		return 0, os.ErrDeadlineExceeded
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.body.Write(p)
}

func (c *reading) FlushError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushed = c.body.Len()
	return nil
}

func (c *reading) SetWriteDeadline(d time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = d
	return nil
}

// got is what has reached the client since it was asked last.
func (c *reading) got() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.deadline.IsZero() && !c.stuck && c.status == 200 {
		c.t.Errorf("a deadline stands while nothing is written")
	}
	out := string(c.body.Next(c.flushed))
	c.flushed = 0
	return out
}

func (c *reading) ended() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *reading) want(body string) {
	c.t.Helper()
	if got := c.got(); got != body {
		c.t.Errorf("got\n%s\nwant\n%s", got, body)
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		f := s.fake()
		checker, err := description()
		if err != nil {
			t.Fatal(err)
		}
		c := watchIn(t, checker.Handler(t, newServer(t, f).Handler()), "/system/replicas/grayifyr0?watch=true&cluster_id=oscar-cluster-a")
		if c.status != 200 || c.header.Get("Content-Type") != "text/event-stream" || c.header.Get("Cache-Control") != "no-store" || c.header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("answered %d %v", c.status, c.header)
		}
		c.want("")
		if since := <-s.since; since != 0 {
			t.Errorf("since %d", since)
		}
		s.views <- viewAt(4711, "degraded")
		c.want(eventOf(4711, "degraded"))
		<-time.After(15 * time.Second)
		c.want(": ping\n\n")
		s.views <- viewAt(4713, "ready")
		s.views <- viewAt(4719, "deleting")
		c.want(eventOf(4713, "ready") + eventOf(4719, "deleting"))
		<-time.After(45 * time.Second)
		c.want(strings.Repeat(": ping\n\n", 3))
		s.views <- &controlplane.Error{Code: controlplane.CodeNotFound, Message: `there is no service "grayifyr0"`}
		c.want(`event: end` + "\n" + `data: {"type":"urn:oscarfed:problem:not_found","title":"There is nothing of this name","status":404,"code":"not_found","detail":"there is no service \"grayifyr0\"","instance":"/system/replicas/grayifyr0","request_id":"` +
			c.header.Get("X-Request-ID") + `"}` + "\n\n")
		if !c.ended() {
			t.Error("the stream goes on")
		}
		if f.count() != 2 || f.calls[1].args != (target{"grayifyr0", "oscar-cluster-a"}) || f.calls[1].caller.Subject != identity.Admin {
			t.Errorf("asked %+v", f.calls)
		}
	})
}

func TestWatchResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		c := watchIn(t, newServer(t, s.fake()).Handler(), "/system/replicas/a/?watch=true", "Last-Event-ID", "4711")
		if since := <-s.since; since != 4711 {
			t.Errorf("since %d", since)
		}
		c.want("")
		c.gone()
		if err := <-s.over; !errors.Is(err, context.Canceled) || !c.ended() {
			t.Errorf("the watch ended with %v", err)
		}
	})
}

func TestWatchRefusals(t *testing.T) {
	s := newSource()
	c := newClient(t, s.fake())
	for _, id := range []string{"x", "-1", "1.5", "0x1", "9223372036854775808", "1 2"} {
		if p := problemOf(t, c.do("GET", "/system/replicas/a?watch=true", "", "Last-Event-ID", id)); p.Status != 400 || p.Violations[0].Path != "Last-Event-ID" {
			t.Errorf("%q: %+v", id, p)
		}
	}
	if p := problemOf(t, c.do("GET", "/system/replicas/a?watch=yes", "")); p.Status != 400 || p.Violations[0].Path != "?watch" {
		t.Errorf("got %+v", p)
	}
	want(t, c.do("GET", "/system/replicas/grayifyr0?watch=false", ""), 200, jsonType, strings.Replace(contractReplicas, "degraded", "ready", 1))
	if resp := c.do("HEAD", "/system/replicas/grayifyr0?watch=true", ""); resp.StatusCode != 200 || resp.Header.Get("Content-Type") != jsonType {
		t.Errorf("HEAD: %d %v", resp.StatusCode, resp.Header)
	}
	f := s.fake()
	f.err = &controlplane.Error{Code: controlplane.CodeNotFound, Message: "m"}
	if p := problemOf(t, newClient(t, f).do("GET", "/system/replicas/a?watch=true", "")); p.Status != 404 {
		t.Errorf("got %+v", p)
	}
	if len(s.since) != 0 {
		t.Error("a watch was begun")
	}
}

// Nothing of a watch is left when its handler returns.
func TestTheHandlerWaitsForItsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		f, over := s.fake(), false
		f.watch = func(ctx context.Context, since int64, fn func(*controlplane.Replicas) error) error {
			err := s.watch(ctx, since, fn)
			<-time.After(time.Second) // it has things to put away
			over = true
			return err
		}
		c := watchIn(t, newServer(t, f).Handler(), "/system/replicas/a?watch=true")
		c.gone()
		<-c.done
		if !over {
			t.Error("the watch goes on")
		}
	})
}

// A client that goes away is nothing to tell of.
func TestAClientThatLeavesIsNoTrouble(t *testing.T) {
	for range 20 { // after the slow write both ends are there: either may be seen first
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			server := newServer(t, newSource().fake(), func(cfg *api.Config) {
				cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			})
			c := watchIn(t, server.Handler(), "/system/replicas/a?watch=true")
			c.slow(time.Second)
			<-time.After(15*time.Second + time.Millisecond) // a ping is being written
			c.gone()
			<-c.done
			if log.Len() > 0 {
				t.Errorf("log: %s", &log)
			}
		})
	}
}

// A stream that ends without a last word is to be resumed: the store was away, or
// this control plane stops.
func TestWatchEndsWithoutALastWordWhenItCanBeResumed(t *testing.T) {
	for name, end := range map[string]func(*api.Server, *source){
		"unavailable": func(_ *api.Server, s *source) { s.views <- &controlplane.Error{Code: controlplane.CodeUnavailable} },
		"internal":    func(_ *api.Server, s *source) { s.views <- errors.New("canary") },
		"drain":       func(server *api.Server, _ *source) { server.Drain(); server.Drain() },
		"an hour":     func(*api.Server, *source) { <-time.After(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource()
				var log bytes.Buffer
				server := newServer(t, s.fake(), func(cfg *api.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				c := watchIn(t, server.Handler(), "/system/replicas/a?watch=true")
				s.views <- viewAt(7, "ready")
				c.want(eventOf(7, "ready"))
				end(server, s)
				if got := strings.ReplaceAll(c.got(), ": ping\n\n", ""); got != "" || !c.ended() {
					t.Errorf("got %q, ended: %v", got, c.ended())
				}
				if wanted := name == "unavailable" || name == "internal"; wanted != contains(log.String(), "a watch was cut") {
					t.Errorf("log: %s", &log)
				}
			})
		})
	}
}

// Whoever does not read holds nobody up, and not for long.
func TestASlowClientIsCut(t *testing.T) {
	for _, what := range []string{"event", "ping"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource()
				c := watchIn(t, newServer(t, s.fake()).Handler(), "/system/replicas/a?watch=true")
				c.mu.Lock()
				c.stuck = true
				c.mu.Unlock()
				began := time.Now()
				if what == "event" {
					s.views <- viewAt(7, "ready")
				}
				<-c.done
				took, wanted := time.Since(began), 10*time.Second
				if what == "ping" {
					wanted += 15 * time.Second
				}
				if took != wanted { // of the bubble's clock, which only moves when all wait
					t.Errorf("cut after %v, want %v", took, wanted)
				}
				if err := <-s.over; err == nil {
					t.Error("it was not cut")
				}
			})
		})
	}
}

func TestWatchesOfOneCallerAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		server := newServer(t, s.fake(), byHeader, func(cfg *api.Config) { cfg.MaxWatches = 2 })
		handler := server.Handler()
		one := watchIn(t, handler, "/system/replicas/a?watch=true", "X-Caller", "ann")
		two := watchIn(t, handler, "/system/replicas/b?watch=true", "X-Caller", "ann")
		three := watchIn(t, handler, "/system/replicas/a?watch=true", "X-Caller", "ann")
		if !three.ended() || three.status != 429 || three.header.Get("Retry-After") != "15" {
			t.Errorf("answered %d %v", three.status, three.header)
		}
		other := watchIn(t, handler, "/system/replicas/a?watch=true", "X-Caller", "bob")
		if other.ended() || two.ended() {
			t.Error("others were ended")
		}
		one.gone()
		if !one.ended() {
			t.Error("it goes on without its client")
		}
		four := watchIn(t, handler, "/system/replicas/a?watch=true", "X-Caller", "ann")
		if four.ended() {
			t.Errorf("answered %d", four.status)
		}
		server.Drain()
		if !two.ended() || !four.ended() || !other.ended() {
			t.Error("some go on")
		}
		if n := server.WatchingCallers(); n != 0 {
			t.Errorf("%d callers who watch nothing are remembered", n)
		}
	})
}

// ?watch=true takes the deadline from no other route.
func TestOnlyTheWatchHasNoDeadline(t *testing.T) {
	for path, bounded := range map[string]bool{
		"/system/services?watch=true": true, "/system/services/a?watch=true": true, "/system/federation/a?watch=true": true,
		"/system/replicas/a?watch=false": true, "/system/replicas/a": true, "/system/clusters?watch=true": true,
	} {
		f := newSource().fake()
		f.err = &controlplane.Error{Code: controlplane.CodeUnavailable}
		got := false
		f.before = func(ctx context.Context) { _, got = ctx.Deadline() }
		newClient(t, f).do("GET", path, "")
		if got != bounded {
			t.Errorf("%s: a deadline: %v", path, got)
		}
	}
}

// stream opens a watch on a real server.
func (s *serving) stream(t *testing.T, path string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(user, password)
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// A stop does not wait for watches: they end at its beginning.
func TestServeEndsWatches(t *testing.T) {
	donor := httptest.NewTLSServer(nil) // for its certificate
	defer donor.Close()
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			src := newSource()
			server := newServer(t, src.fake())
			cfg := api.ServeConfig{Handler: server.Handler(), OnDrain: server.Drain, Drain: time.Hour}
			if proto == "HTTP/2.0" {
				cfg.TLS = donor.TLS.Clone()
				cfg.TLS.NextProtos = []string{"h2"}
			}
			s := serve(t, cfg)
			resp := s.stream(t, "/system/replicas/a?watch=true")
			defer resp.Body.Close()
			if resp.Proto != proto {
				t.Fatalf("over %s", resp.Proto)
			}
			src.views <- viewAt(9, "ready")
			event := make([]byte, len(eventOf(9, "ready")))
			if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != eventOf(9, "ready") {
				t.Errorf("got %q, %v", event, err)
			}
			s.stop()
			if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
				t.Errorf("got %q, %v", rest, err)
			}
			<-s.done
		})
	}
}

// A watch outlives the time that the server gives to reading a request.
func TestAWatchOutlivesTheReadTimeout(t *testing.T) {
	src := newSource()
	s := serve(t, api.ServeConfig{Handler: newServer(t, src.fake()).Handler(), ReadTimeout: 20 * time.Millisecond, Drain: time.Millisecond})
	watch := s.stream(t, "/system/replicas/a?watch=true")
	defer watch.Body.Close()
	// Another request, begun later, has run into that time.
	slow, feed := io.Pipe()
	var sending sync.WaitGroup
	sending.Go(func() { _, _ = feed.Write([]byte(`{"name":`)) })
	if status, err := s.post(t.Context(), slow); err == nil && status != 400 {
		t.Errorf("a body that never ends: %d", status)
	}
	_ = slow.Close()
	sending.Wait()
	src.views <- viewAt(9, "ready")
	event := make([]byte, len(eventOf(9, "ready")))
	if _, err := io.ReadFull(watch.Body, event); err != nil || string(event) != eventOf(9, "ready") {
		t.Errorf("got %q, %v", event, err)
	}
}

// Watches have a method of their own: their length says nothing of other requests.
func TestWatchesAreMeasuredByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		registry := prometheus.NewRegistry()
		server := newServer(t, s.fake(), func(cfg *api.Config) { cfg.Registry = registry })
		c := watchIn(t, server.Handler(), "/system/replicas/a?watch=true")
		if got := gauge(t, registry, "oscarfed_http_watches"); got != 1 {
			t.Errorf("%v watches are open", got)
		}
		c.gone()
		<-c.done
		if got := gauge(t, registry, "oscarfed_http_watches"); got != 0 {
			t.Errorf("%v watches are open", got)
		}
		w := httptest.NewRecorder()
		server.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, line := range []string{
			`oscarfed_http_requests_total{code="200",method="WATCH",route="/system/replicas/{service}"} 1`,
			`oscarfed_http_request_duration_seconds_count{method="WATCH",route="/system/replicas/{service}"} 1`,
		} {
			if !contains(w.Body.String(), line) {
				t.Errorf("no %s in\n%s", line, w.Body)
			}
		}
		if contains(w.Body.String(), `method="GET"`) {
			t.Error("it is counted as a reading, too")
		}
	})
}

package server_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

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
		c.want(eventOf(t, 4711, "degraded"))
		<-time.After(15 * time.Second)
		c.want(": ping\n\n")
		s.views <- viewAt(4713, "ready")
		s.views <- viewAt(4719, "deleting")
		c.want(eventOf(t, 4713, "ready") + eventOf(t, 4719, "deleting"))
		<-time.After(45 * time.Second)
		c.want(strings.Repeat(": ping\n\n", 3))
		s.views <- &fault.Error{Code: fault.CodeNotFound, Message: `there is no service "grayifyr0"`}
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
	want(t, c.do("GET", "/system/replicas/grayifyr0?watch=false", ""), 200, jsonType, strings.Replace(literal(t, "replicas.json"), "degraded", "ready", 1))
	if resp := c.do("HEAD", "/system/replicas/grayifyr0?watch=true", ""); resp.StatusCode != 200 || resp.Header.Get("Content-Type") != jsonType {
		t.Errorf("HEAD: %d %v", resp.StatusCode, resp.Header)
	}
	f := s.fake()
	f.err = &fault.Error{Code: fault.CodeNotFound, Message: "m"}
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
		f.watch = func(ctx context.Context, since int64, fn func(*view.Replicas) error) error {
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
			srv := newServer(t, newSource().fake(), func(cfg *server.Config) {
				cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			})
			c := watchIn(t, srv.Handler(), "/system/replicas/a?watch=true")
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
	for name, end := range map[string]func(*server.Server, *source){
		"unavailable": func(_ *server.Server, s *source) { s.views <- &fault.Error{Code: fault.CodeUnavailable} },
		"internal":    func(_ *server.Server, s *source) { s.views <- errors.New("canary") },
		"drain":       func(srv *server.Server, _ *source) { srv.Drain(); srv.Drain() },
		"an hour":     func(*server.Server, *source) { <-time.After(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource()
				var log bytes.Buffer
				srv := newServer(t, s.fake(), func(cfg *server.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				c := watchIn(t, srv.Handler(), "/system/replicas/a?watch=true")
				s.views <- viewAt(7, "ready")
				c.want(eventOf(t, 7, "ready"))
				end(srv, s)
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

// A reader that does not read delays no other, and is disconnected soon.
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
		srv := newServer(t, s.fake(), byHeader, func(cfg *server.Config) { cfg.MaxWatches = 2 })
		handler := srv.Handler()
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
		for _, service := range []string{"first", "second"} { // each service counts by itself
			for range 2 {
				if w := watchIn(t, handler, "/system/replicas/a?watch=true", "X-Service", service); w.ended() {
					t.Errorf("a watch of the %s service: %d", service, w.status)
				} else {
					defer w.gone()
				}
			}
		}
		four := watchIn(t, handler, "/system/replicas/a?watch=true", "X-Caller", "ann")
		if four.ended() {
			t.Errorf("answered %d", four.status)
		}
		srv.Drain()
		if !two.ended() || !four.ended() || !other.ended() {
			t.Error("some go on")
		}
		if n := srv.WatchingCallers(); n != 0 {
			t.Errorf("%d callers who watch nothing are remembered", n)
		}
	})
}

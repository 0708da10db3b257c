package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// ?watch=true takes the deadline from no other route.
func TestOnlyTheWatchHasNoDeadline(t *testing.T) {
	for path, bounded := range map[string]bool{
		"/system/services?watch=true": true, "/system/services/a?watch=true": true, "/system/federation/a?watch=true": true,
		"/system/replicas/a?watch=false": true, "/system/replicas/a": true, "/system/clusters?watch=true": true, "/system/jobs": true,
		"/system/jobs/a": true, "/system/jobs/a/explain?watch=true": true,
	} {
		f := newSource().fake()
		f.err = &fault.Error{Code: fault.CodeUnavailable}
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
			synctest.Test(t, func(t *testing.T) {
				src := newSource()
				srv := newServer(t, src.fake())
				cfg := server.ServeConfig{Handler: srv.Handler(), OnDrain: srv.Drain, Drain: time.Hour}
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
				event := make([]byte, len(eventOf(t, 9, "ready")))
				if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != eventOf(t, 9, "ready") {
					t.Errorf("got %q, %v", event, err)
				}
				s.stop()
				if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
					t.Errorf("got %q, %v", rest, err)
				}
				<-s.done
			})
		})
	}
}

// A watch outlives the time that the server gives to reading a request.
func TestAWatchOutlivesTheReadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		s := serve(t, server.ServeConfig{Handler: newServer(t, src.fake()).Handler()})
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
		if text := reads(t, watch.Body, eventOf(t, 9, "ready")); strings.ReplaceAll(text, ": ping\n\n", "") != "" {
			t.Errorf("before the event came %q", text)
		}
	})
}

// reads reads until what is wanted has come, and answers what came before it.
func reads(t *testing.T, from io.Reader, wanted string) (before string) {
	t.Helper()
	var text []byte
	for buf := make([]byte, 1); ; {
		if _, err := io.ReadFull(from, buf); err != nil {
			t.Fatalf("%v after %q", err, text)
		}
		if text = append(text, buf...); strings.HasSuffix(string(text), wanted) {
			return strings.TrimSuffix(string(text), wanted)
		}
	}
}

// Watches have a method of their own: their length says nothing of other requests.
func TestWatchesAreMeasuredByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		registry := prometheus.NewRegistry()
		srv := newServer(t, s.fake(), func(cfg *server.Config) { cfg.Registry = registry })
		c := watchIn(t, srv.Handler(), "/system/replicas/a?watch=true")
		if got := gauge(t, registry, "oscarfed_http_watches"); got != 1 {
			t.Errorf("%v watches are open", got)
		}
		c.gone()
		<-c.done
		if got := gauge(t, registry, "oscarfed_http_watches"); got != 0 {
			t.Errorf("%v watches are open", got)
		}
		w := httptest.NewRecorder()
		srv.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
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

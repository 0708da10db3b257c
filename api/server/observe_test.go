package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/runs"
)

// One line per request, and in it nothing of query, headers or bodies.
func TestAccessLog(t *testing.T) {
	var log bytes.Buffer
	c := newClient(t, &fake{created: &federations.CreateResult{Done: true}}, func(cfg *server.Config) {
		cfg.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	})
	body := strings.Replace(service, "}", `,"environment":{"secrets":{"k":"canary-body"}}}`, 1)
	c.do("POST", "/system/services?wait=1s&token=canary-query", body,
		"X-Request-ID", "find-me", "Idempotency-Key", "canary-header", "User-Agent", "canary-agent")
	c.do("GET", "/system/services/"+strings.Repeat("x", 2000), "", "Authorization", "Bearer canary-token")
	c.do("GET", "/a%0Anew%20line", "")
	if contains(log.String(), "canary") || contains(log.String(), "correct horse") || contains(log.String(), "b3NjYXI6") {
		t.Errorf("a secret is in the log: %s", log.String())
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines: %s", len(lines), log.String())
	}
	var first map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"msg": "request", "request_id": "find-me", "method": "POST", "path": "/system/services", "route": "/system/services",
		"status": 201.0, "caller": "cluster_admin", "remote": "192.0.2.1", "bytes": 0.0,
	} {
		if first[name] != value {
			t.Errorf("%s is %v, want %v", name, first[name], value)
		}
	}
	if d, ok := first["duration_ms"].(float64); !ok || d < 0 {
		t.Errorf("duration_ms is %v", first["duration_ms"])
	}
	if !contains(lines[1], `"status":401`) || !contains(lines[1], `"caller":""`) || len(lines[1]) > 1000 {
		t.Errorf("got %s", lines[1])
	}
	if !contains(lines[2], `"route":"unmatched"`) {
		t.Errorf("got %s", lines[2])
	}
}

func TestProbesAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	c := newClient(t, &fake{health: gate.Health{OK: true}}, func(cfg *server.Config) {
		cfg.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	})
	c.do("GET", "/health", "")
	if log.Len() != 0 {
		t.Errorf("log: %s", log.String())
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "of_somebody_else"}, func() float64 { return 7 }))
	var during float64
	f := &fake{err: &fault.Error{Code: fault.CodeNotFound}}
	srv := newServer(t, f, func(cfg *server.Config) { cfg.Registry = registry })
	f.before = func(context.Context) { during = gauge(t, registry, "oscarfed_http_requests_in_flight") }
	c := &client{t, srv.Handler()}
	for _, name := range []string{"a", "b", "c"} {
		c.do("GET", "/system/services/"+name, "")
	}
	c.do("GET", "/system/services", "", "Authorization", "")
	c.do("BREW", "/nowhere/1", "")
	c.do("TRACE", "/nowhere/2", "")
	if during != 1 || gauge(t, registry, "oscarfed_http_requests_in_flight") != 0 {
		t.Errorf("in flight: %v during, %v after", during, gauge(t, registry, "oscarfed_http_requests_in_flight"))
	}

	w := httptest.NewRecorder()
	srv.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	got := w.Body.String()
	for _, line := range []string{
		`oscarfed_http_requests_total{code="404",method="GET",route="/system/services/{service}"} 3`,
		`oscarfed_http_requests_total{code="401",method="GET",route="/system/services"} 1`,
		`oscarfed_http_requests_total{code="404",method="other",route="unmatched"} 2`,
		`oscarfed_http_request_duration_seconds_count{method="GET",route="/system/services/{service}"} 3`,
		`of_somebody_else 7`,
	} {
		if !contains(got, line+"\n") {
			t.Errorf("no %s in\n%s", line, got)
		}
	}
}

// An answer of a function or an OSCAR is counted by its class. So it is no internal error of the control plane, nor an
// outage, and users make no series.
func TestAnswersThatArePassedOnAreCountedByTheirClass(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := &fake{}
	srv := newServer(t, f, func(cfg *server.Config) { cfg.Registry = registry })
	c := &client{t, srv.Handler()}
	for _, status := range []int{200, 500, 503, 599} {
		f.run = func(runs.Request) (*runs.Answer, error) {
			return &runs.Answer{ClusterID: "b", Status: status, Header: http.Header{}, Length: 0, Body: http.NoBody}, nil
		}
		f.forwarded = &runs.ForwardAnswer{ClusterID: "b", Status: status}
		for path, method := range map[string]string{"/run/a": "POST", "/system/volumes/v": "GET"} {
			if got := c.do(method, path, "").StatusCode; got != status {
				t.Errorf("%s %s answers %d, not %d", method, path, got, status)
			}
		}
	}
	f.err = errors.New("of the control plane itself")
	c.do("POST", "/run/a", "")

	w := httptest.NewRecorder()
	srv.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var got []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "oscarfed_http_requests_total") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff([]string{
		`oscarfed_http_requests_total{code="2xx",method="GET",route="/system/volumes/{name}"} 1`,
		`oscarfed_http_requests_total{code="2xx",method="POST",route="/run/{service}"} 1`,
		`oscarfed_http_requests_total{code="500",method="POST",route="/run/{service}"} 1`,
		`oscarfed_http_requests_total{code="5xx",method="GET",route="/system/volumes/{name}"} 3`,
		`oscarfed_http_requests_total{code="5xx",method="POST",route="/run/{service}"} 3`,
	}, got); diff != "" {
		t.Error(diff)
	}
}

func gauge(t testing.TB, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Error(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Errorf("no %s", name)
	return -1
}

func preflight(c *client, path, origin, method, headers string) *http.Response {
	return c.do("OPTIONS", path, "", "Authorization", "", "Origin", origin,
		"Access-Control-Request-Method", method, "Access-Control-Request-Headers", headers)
}

func TestCORS(t *testing.T) {
	f := &fake{}
	c := newClient(t, f, func(cfg *server.Config) {
		cfg.Origins = []string{"https://dashboard.example.org", "https://*.example.com"}
	})
	const headers = "authorization, content-type, x-requested-with"
	for _, origin := range []string{"https://dashboard.example.org", "https://a.example.com"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "HEAD"} {
			resp := preflight(c, "/system/services", origin, method, headers)
			if resp.StatusCode/100 != 2 || resp.Header.Get("Access-Control-Allow-Origin") != origin ||
				resp.Header.Get("Access-Control-Allow-Methods") != method {
				t.Errorf("%s from %s: %d %v", method, origin, resp.StatusCode, resp.Header)
			}
			if allowed := strings.ToLower(resp.Header.Get("Access-Control-Allow-Headers")); allowed != headers {
				t.Errorf("headers allowed: %q", allowed)
			}
		}
		resp := c.do("GET", "/system/services", "", "Origin", origin)
		if resp.StatusCode != 200 || resp.Header.Get("Access-Control-Allow-Origin") != origin {
			t.Errorf("from %s: %d %v", origin, resp.StatusCode, resp.Header)
		}
		if exposed := resp.Header.Get("Access-Control-Expose-Headers"); !slices.Contains(strings.Split(exposed, ", "), "Location") {
			t.Errorf("exposed: %q", exposed)
		}
		if resp.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Error("cookies are allowed")
		}
		// A page must be able to read why it was refused.
		if resp := c.do("GET", "/system/services", "", "Origin", origin, "Authorization", ""); resp.StatusCode != 401 ||
			resp.Header.Get("Access-Control-Allow-Origin") != origin {
			t.Errorf("401 from %s: %d %v", origin, resp.StatusCode, resp.Header)
		}
	}
	if n := f.count(); n != 2 {
		t.Errorf("the control plane was asked %d times, want by the two GETs", n)
	}
	for _, origin := range []string{"https://evil.org", "http://dashboard.example.org", "https://dashboard.example.org.evil.org", "null"} {
		if got := preflight(c, "/system/services", origin, "GET", headers).Header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s is allowed: %q", origin, got)
		}
	}
}

func TestNoCORSByDefault(t *testing.T) {
	c := newClient(t, &fake{})
	if resp := preflight(c, "/system/services", "https://a.example.org", "GET", ""); resp.StatusCode != 404 || resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	if resp := c.do("GET", "/system/services", "", "Origin", "https://a.example.org"); resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v", resp.Header)
	}
}

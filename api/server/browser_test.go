package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/apitest"
	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/runs"
)

// everything is a fake that has an answer for every route.
func everything() *fake {
	return &fake{
		created: &federations.CreateResult{Done: true}, changed: &federations.ChangeResult{}, deleted: &federations.DeleteResult{},
		health: gate.Health{OK: true}, err: &fault.Error{Code: fault.CodeUnavailable, Message: "it is asked"},
	}
}

// eachRoute calls do with every route of the API that changes something, or of those
// that do not.
func eachRoute(t *testing.T, changes bool, do func(method, path string)) {
	t.Helper()
	walked := 0
	for _, route := range routes(t) {
		method, pattern, _ := strings.Cut(route, " ")
		if changes != (method == http.MethodGet) {
			walked++
			do(method, fill(pattern))
		}
	}
	if walked < 15 {
		t.Fatalf("only %d routes were walked", walked)
	}
}

// ours says whether a path is none of OSCAR's.
func ours(path string) bool {
	return !slices.ContainsFunc([]string{"/system/services", "/system/federation/", "/job/", "/run/", "/system/logs/",
		"/system/buckets", "/system/volumes", "/system/quotas/", "/system/metrics"},
		func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// send is a request of the administrator's browser, with the headers given as pairs.
func send(handler http.Handler, method, path, contentType string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(service))
	r.SetBasicAuth(user, password) // which it remembers
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// TestAForeignPageChangesNothing although the browser sends the administrator's password
// along.
func TestAForeignPageChangesNothing(t *testing.T) {
	for name, headers := range map[string][]string{
		"another site":             {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
		"another origin of it":     {"Origin", "https://evil.example.com", "Sec-Fetch-Site", "same-site"},
		"an old browser":           {"Origin", "https://evil.example"},
		"another port":             {"Origin", "http://example.com:8081"},
		"no origin that is told":   {"Origin", "null"},
		"a browser without Origin": {"Sec-Fetch-Site", "cross-site"},
	} {
		f := everything()
		handler := apitest.Handler(t, newServer(t, f, func(cfg *server.Config) {
			cfg.Origins = []string{"https://dashboard.example.org", "https://*.example.net"}
		}).Handler())
		eachRoute(t, true, func(method, path string) {
			for _, contentType := range []string{"text/plain", "application/json", ""} {
				if w := send(handler, method, path, contentType, headers...); w.Code != http.StatusForbidden {
					t.Errorf("%s: %s %s with %q: %d %s", name, method, path, contentType, w.Code, w.Body)
				}
			}
		})
		if n := f.count(); n != 0 {
			t.Errorf("%s: the control plane was asked %d times", name, n)
		}
	}
}

// TestClientsThatAreNoBrowsersAreServedAsBefore, and so are the API's own origin and the
// pages that the operator names.
func TestClientsThatAreNoBrowsersAreServedAsBefore(t *testing.T) {
	for name, headers := range map[string][]string{
		"curl":                   nil,
		"the same origin":        {"Origin", "http://example.com", "Sec-Fetch-Site", "same-origin"},
		"its user":               {"Sec-Fetch-Site", "none"},
		"an old browser":         {"Origin", "http://example.com"},
		"a page that is named":   {"Origin", "https://dashboard.example.org", "Sec-Fetch-Site", "cross-site"},
		"a page below a pattern": {"Origin", "https://A.example.net", "Sec-Fetch-Site", "cross-site"},
	} {
		handler := apitest.Handler(t, newServer(t, everything(), func(cfg *server.Config) {
			cfg.Origins = []string{"https://Dashboard.example.org", "https://*.example.net"}
		}).Handler())
		eachRoute(t, true, func(method, path string) {
			for _, contentType := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json", ""} {
				if ours(path) && contentType != "application/json" && contentType != "" {
					continue
				}
				if w := send(handler, method, path, contentType, headers...); w.Code == http.StatusForbidden && !strings.HasPrefix(path, "/system/join") || w.Code == http.StatusUnsupportedMediaType {
					t.Errorf("%s: %s %s with %q: %d %s", name, method, path, contentType, w.Code, w.Body)
				}
			}
		})
	}
}

// TestAnyPageMayCallButNotWithARememberedPassword: with "*" a page sends what it has
// credentials for, and nothing that a form of any page can send.
func TestAnyPageMayCallButNotWithARememberedPassword(t *testing.T) {
	handler := newServer(t, everything(), func(cfg *server.Config) { cfg.Origins = []string{"*"} }).Handler()
	for _, tt := range []struct {
		method, contentType, mode string
		refused                   bool
	}{
		{"POST", "application/json", "", false}, {"POST", "image/png", "cors", false}, {"PUT", "", "", false}, {"DELETE", "", "cors", false},
		{"POST", "text/plain;charset=UTF-8", "", true}, {"POST", "multipart/form-data; boundary=x", "", true},
		{"POST", "Application/X-WWW-Form-urlencoded ; a", "", true}, {"POST", "", "", true},
		{"POST", "text/ping", "", true}, {"POST", "application/a-new-kind-of-ping", "no-cors", true},
	} {
		path := "/system/services"
		if tt.method == "DELETE" {
			path += "/svc"
		}
		w := send(handler, tt.method, path, tt.contentType, "Origin", "https://anybody.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", tt.mode)
		if (w.Code == http.StatusForbidden) != tt.refused {
			t.Errorf("%s with %q, %q: %d", tt.method, tt.contentType, tt.mode, w.Code)
		}
	}
}

// TestOurPathsReadNothingThatAFormCanSend, from wherever it comes.
func TestOurPathsReadNothingThatAFormCanSend(t *testing.T) {
	handler := apitest.Handler(t, newServer(t, everything()).Handler())
	eachRoute(t, true, func(method, path string) {
		for _, contentType := range []string{"text/plain", "TEXT/PLAIN; charset=utf-8", " application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/ping"} {
			if w := send(handler, method, path, contentType); ours(path) && w.Code != http.StatusUnsupportedMediaType || !ours(path) && w.Code == http.StatusUnsupportedMediaType {
				t.Errorf("%s %s with %q: %d %s", method, path, contentType, w.Code, w.Body)
			}
		}
	})
}

// TestAnswersAreNoPages: no browser takes one for a script or a document of this origin,
// whatever the function or the log says of itself.
func TestAnswersAreNoPages(t *testing.T) {
	f := everything()
	f.err = nil
	f.run = func(req runs.Request) (*runs.Answer, error) {
		return answering(200, http.Header{
			"Content-Type": {"text/html"}, "Content-Security-Policy": {"script-src *"}, "X-Content-Type-Options": {"sniff"},
		}, strings.NewReader("<script>alert(1)</script>"), -1)(req)
	}
	handler := newServer(t, f).Handler()
	check := func(method, path string) {
		if path == "/ui" || strings.HasPrefix(path, "/ui/") {
			return // it is the page: its content is that of this build
		}
		h := send(handler, method, path, "application/json").Header()
		if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "sandbox;") || len(h.Values("Content-Security-Policy")) != 1 ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s %s: %v", method, path, h)
		}
	}
	check("POST", "/run/svc")
	check("GET", "/system/logs/svc/j1")
	f.err = &fault.Error{Code: fault.CodeUnavailable, Message: "it is asked"}
	eachRoute(t, true, check)
	eachRoute(t, false, check)
	check("GET", "/nothing")
}

// TestNoGETChangesAnything: a link in any page makes a browser send one, password and all.
func TestNoGETChangesAnything(t *testing.T) {
	reads := []string{
		"Audit", "Cluster", "Clusters", "DefaultStorage", "Deleted", "Deployment", "Differences", "ExplainJob", "Federation", "Federations", "Health", "History",
		"Info", "Job", "JobLog", "JobLogs", "Jobs", "RefreshToken", "Replicas", "ReplicaStatuses", "Capacities", "Service", "Services", "StorageOf", "TakeStream", "JobCounts", "Changes",
		"Buckets", "Volumes", "Forward", "Usage", "Events", "Stats", "Files",
	}
	f := everything()
	handler := newServer(t, f).Handler()
	eachRoute(t, false, func(_, path string) { _, _ = io.Copy(io.Discard, send(handler, http.MethodGet, path, "").Body) })
	if len(f.calls) < 15 {
		t.Errorf("the control plane was asked only %d times", len(f.calls))
	}
	for _, c := range f.calls {
		if name, _, _ := strings.Cut(c.name, " "); !slices.Contains(reads, name) {
			t.Errorf("a GET asks the control plane for %s", c.name)
		}
	}
}

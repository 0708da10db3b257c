package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"

	"github.com/oscarfed/oscarfed/api"
	"github.com/oscarfed/oscarfed/api/apitest"
	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// routes are METHOD pattern of the whole router.
func routes(t testing.TB) []string {
	t.Helper()
	var out []string
	err := chi.Walk(newServer(t, &fake{}).Handler().(chi.Routes), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		out = append(out, method+" "+pattern)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// fill puts names into a pattern.
func fill(pattern string) string {
	return strings.NewReplacer("{service}", "svc", "{federation}", "fed", "{cluster}", "c1", "{job}", "j1", "{name}", "n1", "{file}", "icon.svg").Replace(pattern)
}

func TestOpenAPIListsThePhases(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI))
	if err != nil {
		t.Fatal(err)
	}
	words := func(schemas ...string) (out []string) {
		for _, name := range schemas {
			for _, word := range doc.Components.Schemas[name].Value.Enum {
				out = append(out, fmt.Sprint(word))
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	for _, c := range []struct{ described, known []string }{
		{words("FederationPhase"), v1.FederationPhases()},
		{words("FederationPhase", "ReplicaPhase"), v1.Phases()},
		{words("ClusterState"), v1.ClusterStates()},
		{words("JobState"), v1.JobStates()},
	} {
		if !slices.Equal(c.described, slices.Sorted(slices.Values(c.known))) {
			t.Errorf("described are %q, known %q", c.described, c.known)
		}
	}
}

func TestOpenAPIDescribesTheRouter(t *testing.T) {
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData([]byte(api.OpenAPI))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(loader.Context); err != nil {
		t.Fatal(err)
	}
	if served := bodyOf(t, newClient(t, &fake{}).do("GET", "/openapi.yaml", "")); served != api.OpenAPI {
		t.Error("GET /openapi.yaml serves another description")
	}
	var described []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	slices.Sort(described)
	served := routes(t)
	if len(served) < 10 {
		t.Fatalf("only %d routes were walked", len(served))
	}
	for _, s := range served {
		if !slices.Contains(described, s) {
			t.Errorf("%s is served and not described", s)
		}
	}
	for _, d := range described {
		if !slices.Contains(served, d) {
			t.Errorf("%s is described and not served", d)
		}
	}
}

// openRoutes need no credentials: some are for everybody, and at the others a syncer proves
// who it is by a token, by the signature of its request, or by what it has opened.
func openRoutes() []string {
	return []string{
		"GET /health", "GET /openapi.yaml", "GET /system/login", "GET /", "GET /ui", "GET /ui/{file}",
		"POST /system/join", "POST /system/join/challenge", "POST /system/join/renew",
		"POST /system/relay/challenge", "GET /system/relay",
	}
}

// Without accepted credentials no route reaches the control plane, but for those
// that are open.
func TestNoRouteWithoutCredentials(t *testing.T) {
	open := openRoutes()
	credentials := map[string]func(*http.Request){
		"none":             func(*http.Request) {},
		"wrong password":   func(r *http.Request) { r.SetBasicAuth(user, "wrong") },
		"wrong user":       func(r *http.Request) { r.SetBasicAuth("root", password) },
		"empty":            func(r *http.Request) { r.SetBasicAuth("", "") },
		"bearer":           func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+password) },
		"garbage":          func(r *http.Request) { r.Header.Set("Authorization", "Basic %%%") },
		"in the query":     func(r *http.Request) { r.URL.RawQuery = "user=oscar&password=correct+horse&token=x" },
		"forwarded as":     func(r *http.Request) { r.Header.Set("X-Remote-User", user) },
		"trailing slash":   func(r *http.Request) { r.URL.Path += "/" },
		"method override":  func(r *http.Request) { r.Header.Set("X-HTTP-Method-Override", "GET") },
		"accepts problems": func(r *http.Request) { r.Header.Set("Accept", problemType) },
	}
	f := &fake{}
	handler := apitest.Handler(t, newServer(t, f).Handler())
	walked := 0
	for _, route := range routes(t) {
		if slices.Contains(open, route) {
			continue
		}
		method, pattern, _ := strings.Cut(route, " ")
		path := fill(pattern)
		methods := []string{method}
		if method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		for name, set := range credentials {
			for _, m := range methods {
				walked++
				r := httptest.NewRequest(m, path, strings.NewReader(service))
				set(r)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") != `Basic realm="Authorization Required"` {
					t.Errorf("%s %s with %s: %d %v", m, path, name, w.Code, w.Header())
				}
			}
		}
	}
	if n := f.count(); n != 0 {
		t.Errorf("the control plane was asked %d times: %+v", n, f.calls)
	}
	if walked < 100 {
		t.Errorf("only %d requests were sent", walked)
	}
}

// 401 has no body on OSCAR's paths, as there; elsewhere, and for a caller that asks for one, it is
// a problem document.
func TestUnauthenticatedBody(t *testing.T) {
	c := newClient(t, &fake{})
	want(t, c.do("GET", "/system/services", "", "Authorization", ""), 401, "", "")
	for _, resp := range []*http.Response{
		c.do("GET", "/system/services", "", "Authorization", "", "Accept", problemType),
		c.do("GET", "/system/clusters", "", "Authorization", ""),
	} {
		if p := problemOf(t, resp); p.Code != "unauthenticated" || p.Status != 401 {
			t.Errorf("got %+v", p)
		}
	}
}

// An issuer of tokens that is away is not the caller's fault.
func TestCredentialsThatCannotBeChecked(t *testing.T) {
	f := &fake{}
	c := newClient(t, f, func(cfg *server.Config) {
		cfg.Authenticator = authenticator(func(*http.Request) (identity.Caller, error) {
			return identity.Caller{Subject: "eve"}, errors.New("dial issuer.internal: refused")
		})
	})
	resp := c.do("GET", "/system/clusters", "")
	if p := problemOf(t, resp); p.Status != 503 || contains(p.Detail, "issuer.internal") || f.count() != 0 {
		t.Errorf("got %+v, %d calls", p, f.count())
	}
	if resp.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

type authenticator func(*http.Request) (identity.Caller, error)

func (a authenticator) Authenticate(r *http.Request) (identity.Caller, error) { return a(r) }

func TestCallerReachesTheControlPlane(t *testing.T) {
	f := &fake{}
	c := newClient(t, f, func(cfg *server.Config) {
		cfg.Authenticator = authenticator(func(*http.Request) (identity.Caller, error) {
			return identity.Caller{Subject: "user@egi.eu"}, nil
		})
	})
	c.do("GET", "/system/services", "")
	if got := f.only(t); got.caller != (identity.Caller{Subject: "user@egi.eu"}) {
		t.Errorf("got %+v", got)
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	f := &fake{}
	c := newClient(t, f)
	for _, route := range []string{
		"GET /", "GET /system", "GET /system/nothing", "GET /system/services/a/b", "GET /system/replica", "POST /health",
		"PATCH /system/services", "PUT /system/services/x", "POST /system/services/x", "DELETE /system/services", "DELETE /system/services/",
		"PUT /system/federations", "TRACE /system/info", "BREW /system/info", "OPTIONS /system/services", "GET //system/services",
	} {
		method, path, _ := strings.Cut(route, " ")
		for _, auth := range []string{"", "Basic b3NjYXI6d3Jvbmc="} {
			resp := c.do(method, path, "", "Authorization", auth)
			if got := bodyOf(t, resp); resp.StatusCode != 404 || got != "404 page not found" || resp.Header.Get("Content-Type") != text {
				t.Errorf("%s: %d %q", route, resp.StatusCode, got)
			}
		}
	}
	if f.count() != 0 {
		t.Errorf("calls: %+v", f.calls)
	}
}

// oscar-js and oscar_python send trailing slashes; they are not redirected.
func TestTrailingSlash(t *testing.T) {
	f := &fake{health: gate.Health{OK: true}, created: &federations.CreateResult{Done: true}, deleted: &federations.DeleteResult{}}
	c := newClient(t, f)
	for route, status := range map[string]int{
		"GET /system/info/": 200, "GET /system/services/": 200, "POST /system/services/": 201, "GET /health/": 200,
		"DELETE /system/services/x/": 204, "GET /system/clusters/": 200,
	} {
		method, path, _ := strings.Cut(route, " ")
		if resp := c.do(method, path, service); resp.StatusCode != status {
			t.Errorf("%s: %d %s", route, resp.StatusCode, bodyOf(t, resp))
		}
	}
}

func TestHead(t *testing.T) {
	c := newClient(t, &fake{health: gate.Health{OK: true}})
	for _, path := range []string{"/health", "/system/info", "/system/services", "/system/clusters", "/openapi.yaml"} {
		if resp := c.do("HEAD", path, ""); resp.StatusCode != 200 {
			t.Errorf("HEAD %s: %d", path, resp.StatusCode)
		}
	}
}

func TestHealth(t *testing.T) {
	f := &fake{health: gate.Health{OK: true}}
	srv := newServer(t, f)
	c := &client{t, apitest.Handler(t, srv.Handler())}
	want(t, c.do("GET", "/health", "", "Authorization", ""), 200, text, "Ok")
	f.health.Message = "etcd is short of space"
	want(t, c.do("GET", "/health", "", "Authorization", ""), 200, text, "Ok, but etcd is short of space")
	f.health = gate.Health{Message: "etcd is away"}
	want(t, c.do("GET", "/health", "", "Authorization", ""), 503, text, "etcd is away")
	f.health = gate.Health{OK: true}
	srv.Drain()
	want(t, c.do("GET", "/health", "", "Authorization", ""), 503, text, "the control plane is stopping")
}

func TestInfo(t *testing.T) {
	body := bodyOf(t, newClient(t, &fake{}).do("GET", "/system/info", ""))
	if !strings.HasPrefix(body, `{"version":"v4.1.2","git_commit":"`) ||
		!strings.HasSuffix(body, `,"control_plane":"0199c3a2-0000-7000-8000-00000000c0de","clusters":3,"alive_clusters":2,"etcd":{"space":"ok","size_bytes":3,"in_use_bytes":2,"quota_bytes":4,"advice":""},"upgrade_unfinished":true}`) {
		t.Errorf("got %s", body)
	}
}

func TestRequestID(t *testing.T) {
	f := &fake{created: &federations.CreateResult{Done: true}}
	c := newClient(t, f)
	tests := []struct {
		given string
		kept  bool
	}{
		{"", false},
		{"0199c3a2-5f0e-7c31-9a44-3b1f0d8e6a21", true},
		{"trace_1.b-2", true},
		{strings.Repeat("x", 64), true},
		{strings.Repeat("x", 65), false},
		{"two words", false},
		{"line\nbreak", false},
		{"<script>", false},
		{"ä", false},
	}
	seen := map[string]bool{}
	for _, tt := range tests {
		for range 2 { // the same id twice is two writes
			f.calls = nil
			resp := c.do("POST", "/system/services", service, "X-Request-ID", tt.given)
			id := resp.Header.Get("X-Request-ID")
			write := f.only(t).args.(federations.CreateRequest).RequestID
			if tt.kept != (id == tt.given) || id == "" || !strings.HasPrefix(write, id) || seen[write] {
				t.Errorf("%q: answered %q, wrote %q (seen before: %v)", tt.given, id, write, seen[write])
			}
			seen[write] = true
		}
	}
}

// TestNothingIsAnsweredBeforeTheControlPlaneIsReady: its store may be one that was
// restored, and not be recognised yet.
func TestNothingIsAnsweredBeforeTheControlPlaneIsReady(t *testing.T) {
	f := &fake{starting: true}
	handler := apitest.Handler(t, newServer(t, f).Handler())
	walked := 0
	for _, route := range routes(t) {
		method, pattern, _ := strings.Cut(route, " ")
		if slices.Contains([]string{"/health", "/openapi.yaml", "/system/login", "/", "/ui", "/ui/{file}"}, pattern) {
			continue
		}
		walked++
		r := httptest.NewRequest(method, fill(pattern), strings.NewReader(service))
		r.SetBasicAuth(user, password)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: %d %s", route, w.Code, w.Body)
		}
	}
	if n := f.count(); n != 0 || walked < 15 {
		t.Errorf("%d requests reached the control plane; %d routes were walked", n, walked)
	}
}

// A page of an origin that --cors-origins names reads and sends every header that is described, but for those
// between syncer and control plane.
func TestPagesOfOtherOriginsHaveEveryHeader(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI))
	if err != nil {
		t.Fatal(err)
	}
	const origin = "https://dashboard.example.org"
	c := newClient(t, &fake{}, func(cfg *server.Config) { cfg.Origins = []string{origin} })
	exposed := strings.Split(c.do("GET", "/system/services", "", "Origin", origin).Header.Get("Access-Control-Expose-Headers"), ", ")
	allowed := func(name string) bool {
		return preflight(c, "/system/services", origin, "POST", strings.ToLower(name)).Header.Get("Access-Control-Allow-Headers") != ""
	}
	for path, item := range doc.Paths.Map() {
		if path == "/system/relay" {
			continue
		}
		for method, op := range item.Operations() {
			for _, p := range op.Parameters {
				if p.Value.In == openapi3.ParameterInHeader && !allowed(p.Value.Name) {
					t.Errorf("%s %s: %s may not be sent", method, path, p.Value.Name)
				}
			}
			for status, response := range op.Responses.Map() {
				for name := range response.Value.Headers {
					if name != "Cache-Control" && !slices.Contains(exposed, http.CanonicalHeaderKey(name)) {
						t.Errorf("%s %s: %s of %s cannot be read", method, path, name, status)
					}
				}
			}
		}
	}
}

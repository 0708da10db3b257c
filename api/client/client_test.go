package client_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// newClient calls a handler as oscar.
func newClient(t *testing.T, handler http.HandlerFunc, change ...func(*client.Config)) *client.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	cfg := client.Config{Endpoint: server.URL + "/", User: "oscar", Password: "secret", Transport: server.Client().Transport}
	for _, c := range change {
		c(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(t *testing.T, body string) *oscar.Service {
	t.Helper()
	s, violations := oscar.ParseService([]byte(body))
	if len(violations) > 0 {
		t.Fatal(violations)
	}
	return s
}

// seen is what a handler got.
type seen struct {
	Method, URI, Body string
	Header            map[string]string
}

func see(t *testing.T, r *http.Request, headers ...string) seen {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	s := seen{Method: r.Method, URI: r.RequestURI, Body: string(body)}
	for _, name := range headers {
		if v := strings.Join(r.Header.Values(name), ", "); v != "" {
			if s.Header == nil {
				s.Header = map[string]string{}
			}
			s.Header[name] = v
		}
	}
	return s
}

func TestRequests(t *testing.T) {
	svc := parse(t, `{"name":"a","image":"i"}`)
	const body = `{"name":"a","image":"i"}`
	yes := true
	spec := v1.ClusterSpec{ClusterID: "c 1", Endpoint: "https://c1", SSLVerify: &yes}
	const specBody = `{"cluster_id":"c 1","endpoint":"https://c1","ssl_verify":true}`
	b1 := oscar.Member{Type: "oscar", ClusterID: "b", ServiceName: "a1"}
	c1 := oscar.Member{Type: "oscar", ClusterID: "c", ServiceName: "a1", Priority: 3}
	const b1Body, c1Body = `{"type":"oscar","cluster_id":"b","service_name":"a1"}`, `{"type":"oscar","cluster_id":"c","service_name":"a1","priority":3}`
	everything := client.ChangeOptions{ClusterID: "x", IfMatch: 7, Wait: 90 * time.Second}
	tests := map[string]struct {
		call   func(context.Context, *client.Client) (any, error)
		answer string
		status int
		header http.Header
		want   seen
		result any
	}{
		"create": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.CreateService(ctx, svc, client.CreateOptions{})
			},
			answer: `{"group_id":"a"}`, status: 201, header: http.Header{"Location": {"/system/replicas/a"}, "X-Request-Id": {"r1"}},
			want:   seen{"POST", "/system/services", body, map[string]string{"Prefer": "return=representation"}},
			result: &client.CreateResult{Replicas: &v1.Replicas{GroupID: "a"}, Done: true, Location: "/system/replicas/a", RequestID: "r1"},
		},
		"create with everything": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.CreateService(ctx, svc, client.CreateOptions{Wait: 90 * time.Second, Deployment: "best-effort", IdempotencyKey: "k"})
			},
			answer: `{}`, status: 201, header: http.Header{"Idempotent-Replayed": {"true"}},
			want: seen{"POST", "/system/services?deployment=best-effort&wait=1m30s", body,
				map[string]string{"Prefer": "return=representation", "Idempotency-Key": "k"}},
			result: &client.CreateResult{Replicas: &v1.Replicas{}, Done: true, Replayed: true},
		},
		"create without waiting": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.CreateService(ctx, svc, client.CreateOptions{Async: true, Wait: time.Second})
			},
			answer: `{}`, status: 202,
			want:   seen{"POST", "/system/services", body, map[string]string{"Prefer": "return=representation, respond-async"}},
			result: &client.CreateResult{Replicas: &v1.Replicas{}},
		},
		"delete": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.DeleteService(ctx, "a/b", client.DeleteOptions{ClusterID: "c", Data: "delete", Jobs: "cancel", Wait: time.Second})
			},
			status: 204, header: http.Header{"Oscarfed-Pending": {"2"}},
			want: seen{Method: "DELETE", URI: "/system/services/a%2Fb?cluster_id=c&data=delete&jobs=cancel&wait=1s",
				Header: map[string]string{"Prefer": "return=representation"}},
			result: &client.DeleteResult{Pending: 2},
		},
		"delete with nothing": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.DeleteService(ctx, "a", client.DeleteOptions{})
			},
			status: 204, header: http.Header{"Oscarfed-Pending": {"0"}},
			want:   seen{Method: "DELETE", URI: "/system/services/a", Header: map[string]string{"Prefer": "return=representation"}},
			result: &client.DeleteResult{},
		},
		"change": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.ChangeService(ctx, svc, client.ChangeOptions{})
			},
			answer: `{"generation":2}`,
			want:   seen{"PUT", "/system/services", body, map[string]string{"Prefer": "return=representation"}}, result: &v1.Replicas{Generation: 2},
		},
		"change with everything": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.ChangeService(ctx, svc, everything) },
			answer: `{}`,
			want: seen{"PUT", "/system/services?cluster_id=x&wait=1m30s", body,
				map[string]string{"Prefer": "return=representation", "If-Match": `"7"`}},
			result: &v1.Replicas{},
		},
		"change without waiting": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.ChangeService(ctx, svc, client.ChangeOptions{Async: true, Wait: time.Second})
			},
			answer: `{}`, want: seen{"PUT", "/system/services", body, map[string]string{"Prefer": "return=representation, respond-async"}}, result: &v1.Replicas{},
		},
		"add": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.AddReplicas(ctx, "a/b", []oscar.Member{b1, c1}, everything)
			},
			answer: `{"generation":2}`,
			want: seen{"POST", "/system/replicas/a%2Fb?cluster_id=x&wait=1m30s", `{"replicas":[` + b1Body + `,` + c1Body + `]}`,
				map[string]string{"If-Match": `"7"`}},
			result: &v1.Replicas{Generation: 2},
		},
		"replace": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.ReplaceReplicas(ctx, "a", []client.Replacement{{From: b1, To: c1}}, client.ChangeOptions{})
			},
			answer: `{}`, want: seen{"PUT", "/system/replicas/a", `{"replicas":[` + b1Body + `],"update":[` + c1Body + `]}`, nil}, result: &v1.Replicas{},
		},
		"remove members": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.RemoveReplicas(ctx, "a", []oscar.Member{b1}, client.ChangeOptions{})
			},
			answer: `{}`, want: seen{"DELETE", "/system/replicas/a", `{"replicas":[` + b1Body + `]}`, nil}, result: &v1.Replicas{},
		},
		"remove nobody": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.RemoveReplicas(ctx, "a", nil, client.ChangeOptions{})
			},
			answer: `{}`, want: seen{"DELETE", "/system/replicas/a", `{}`, nil}, result: &v1.Replicas{},
		},
		"remove all members": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.RemoveAllReplicas(ctx, "a", client.ChangeOptions{ClusterID: "x"})
			},
			answer: `{}`, want: seen{Method: "DELETE", URI: "/system/replicas/a?all=true&cluster_id=x"}, result: &v1.Replicas{},
		},
		"services": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.Services(ctx) },
			answer: `[]`, want: seen{Method: "GET", URI: "/system/services?limit=500"}, result: []*oscar.Service{},
		},
		"replicas": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.Replicas(ctx, "a", "c") },
			answer: `{"revision":7}`, want: seen{Method: "GET", URI: "/system/replicas/a?cluster_id=c"}, result: &v1.Replicas{Revision: 7},
		},
		"federations": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.Federations(ctx) },
			answer: `[{"uid":"u"}]`, want: seen{Method: "GET", URI: "/system/federations?limit=500"}, result: []v1.Federation{{UID: "u"}},
		},
		"federation": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.Federation(ctx, "u") },
			answer: `{"uid":"u"}`, want: seen{Method: "GET", URI: "/system/federations/u"}, result: &v1.Federation{UID: "u"},
		},
		"clusters": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.Clusters(ctx) },
			answer: `[]`, want: seen{Method: "GET", URI: "/system/clusters?limit=500"}, result: []v1.Cluster{},
		},
		"cluster": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.Cluster(ctx, "c 1") },
			answer: `{"cluster_id":"c 1"}`, want: seen{Method: "GET", URI: "/system/clusters/c%201"}, result: &v1.Cluster{ClusterID: "c 1"},
		},
		"register": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.RegisterCluster(ctx, spec) },
			answer: `{"cluster_id":"c 1"}`, status: 201, want: seen{"POST", "/system/clusters", specBody, nil}, result: &v1.Cluster{ClusterID: "c 1"},
		},
		"update": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.UpdateCluster(ctx, spec) },
			answer: `{}`, want: seen{"PUT", "/system/clusters/c%201", specBody, nil}, result: &v1.Cluster{},
		},
		"remove": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.RemoveCluster(ctx, "c", client.RemoveClusterOptions{})
			},
			status: 204, header: http.Header{"Oscarfed-Pending": {"2"}},
			want: seen{Method: "DELETE", URI: "/system/clusters/c?wait=0s"}, result: &client.RemoveClusterResult{Pending: 2},
		},
		"info": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.Info(ctx) },
			answer: `{"clusters":3}`, want: seen{Method: "GET", URI: "/system/info"}, result: &v1.Info{Clusters: 3},
		},
		"health": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Health(ctx) },
			answer: `Ok`, want: seen{Method: "GET", URI: "/health"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got seen
			c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				got = see(t, r, "Prefer", "Idempotency-Key", "If-Match")
				if u, p, ok := r.BasicAuth(); !ok || u != "oscar" || p != "secret" {
					t.Errorf("Authorization is %q", r.Header.Get("Authorization"))
				}
				if !strings.Contains(r.Header.Get("Accept"), v1.ProblemType) {
					t.Errorf("Accept is %q", r.Header.Get("Accept"))
				}
				maps.Copy(w.Header(), tt.header)
				if tt.status != 0 {
					w.WriteHeader(tt.status)
				}
				_, _ = io.WriteString(w, tt.answer)
			})
			result, err := tt.call(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("sent: %s", diff)
			}
			if diff := cmp.Diff(tt.result, result); diff != "" {
				t.Errorf("result: %s", diff)
			}
		})
	}
}

func TestService(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != "/system/services/a?cluster_id=c" {
			t.Errorf("asked for %s", r.RequestURI)
		}
		_, _ = io.WriteString(w, `{"name":"a","unknown":1}`)
	})
	s, err := c.Service(t.Context(), "a", "c")
	if err != nil || s.Name != "a" {
		t.Fatalf("got %+v, %v", s, err)
	}
}

func TestCredentials(t *testing.T) {
	var got http.Header
	handler := func(w http.ResponseWriter, r *http.Request) { got = r.Header; _, _ = io.WriteString(w, "{}") }
	bearer := newClient(t, handler, func(cfg *client.Config) {
		cfg.User, cfg.Password, cfg.Token, cfg.UserAgent = "", "", "tok", "oscarfed/1"
	})
	if _, err := bearer.Info(t.Context()); err != nil || got.Get("Authorization") != "Bearer tok" || got.Get("User-Agent") != "oscarfed/1" {
		t.Errorf("%v %v", got, err)
	}
	nobody := newClient(t, handler, func(cfg *client.Config) { cfg.User, cfg.Password = "", "" })
	if _, err := nobody.Info(t.Context()); err != nil || got.Get("Authorization") != "" {
		t.Errorf("%v %v", got, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]client.Config{
		"nothing":     {},
		"no scheme":   {Endpoint: "127.0.0.1:8080"},
		"a file":      {Endpoint: "file:///etc/passwd"},
		"no host":     {Endpoint: "http://"},
		"credentials": {Endpoint: "http://oscar:canary@localhost"},
		"a query":     {Endpoint: "http://localhost?a=b"},
		"a fragment":  {Endpoint: "http://localhost#a"},
		"garbage":     {Endpoint: "http://canary:\x7f"},
		"both":        {Endpoint: "http://localhost", Token: "canary", User: "u"},
	} {
		if _, err := client.New(cfg); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A redirect would carry credentials to another server: it is an error.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var hits atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer elsewhere.Close()
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	if _, err := c.Info(t.Context()); err == nil || hits.Load() != 0 {
		t.Errorf("%v, %d requests elsewhere", err, hits.Load())
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for _, body := range []string{"", "<html>", `{"clusters":`, `[]`} {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		if _, err := c.Info(t.Context()); err == nil {
			t.Errorf("%q was taken for an answer", body)
		}
	}
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "welcome") })
	if err := c.Health(t.Context()); err == nil {
		t.Error("a stranger was taken for a control plane")
	}
	if _, err := c.DeleteService(t.Context(), "a", client.DeleteOptions{}); err == nil {
		t.Error("an answer without a count was taken for a deletion")
	}
}

// refusing is an address where no process listens.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

func asError(t *testing.T, err error) *client.Error {
	t.Helper()
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		t.Fatalf("got %T %v", err, err)
	}
	return e
}

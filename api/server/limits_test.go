package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/runs"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

func limited(n int) func(*server.Config) { return func(cfg *server.Config) { cfg.RateLimit = n } }

// byHeader takes the caller's name from a header; no name is refused.
func byHeader(cfg *server.Config) {
	cfg.Authenticator = authenticator(func(r *http.Request) (identity.Caller, error) {
		if uid := r.Header.Get("X-Service"); uid != "" {
			return identity.OfService(uid), nil
		}
		name := r.Header.Get("X-Caller")
		if name == "" {
			return identity.Caller{}, identity.ErrUnauthenticated
		}
		return identity.Caller{Subject: name}, nil
	})
}

func TestRateLimitPerCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := newClient(t, f, limited(5), byHeader)
		for i := range 5 {
			if resp := c.do("GET", "/system/services", "", "X-Caller", "ann"); resp.StatusCode != 200 {
				t.Fatalf("request %d: %d", i, resp.StatusCode)
			}
		}
		resp := c.do("GET", "/system/services", "", "X-Caller", "ann")
		want(t, resp, 429, text, "more than 5 requests in a second; send again after the pause in Retry-After")
		if got := resp.Header.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After is %q", got)
		}
		if p := problemOf(t, c.do("GET", "/system/clusters", "", "X-Caller", "ann")); p.Code != "exhausted" {
			t.Errorf("got %+v", p)
		}
		if resp := c.do("GET", "/system/services", "", "X-Caller", "bob"); resp.StatusCode != 200 {
			t.Errorf("another caller: %d", resp.StatusCode)
		}
		if n := f.count(); n != 6 {
			t.Errorf("the control plane was asked %d times", n)
		}
		<-time.After(2 * time.Second)
		if resp := c.do("GET", "/system/services", "", "X-Caller", "ann"); resp.StatusCode != 200 {
			t.Errorf("after the pause: %d", resp.StatusCode)
		}
	})
}

func TestRateLimitOff(t *testing.T) {
	c := newClient(t, &fake{}, limited(0))
	for range 300 {
		if resp := c.do("GET", "/system/services", ""); resp.StatusCode != 200 {
			t.Fatal(resp.StatusCode)
		}
	}
}

// Guessing credentials is slow from one address, and does not slow others.
func TestFailedAuthenticationsAreLimitedPerAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		handler := newServer(t, f, limited(5)).Handler()
		try := func(address, pass string) int {
			r := httptest.NewRequest("GET", "/system/services", nil)
			r.RemoteAddr = address
			r.SetBasicAuth(user, pass)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Code
		}
		for i := range 5 {
			if got := try("192.0.2.1:1000", "guess"); got != 401 {
				t.Fatalf("guess %d: %d", i, got)
			}
		}
		if got := try("192.0.2.1:2000", "guess"); got != 429 {
			t.Errorf("the sixth guess: %d", got)
		}
		if got := try("192.0.2.1:2000", password); got != 429 {
			t.Errorf("the right password after too many guesses is told from a wrong one: %d", got)
		}
		if got := try("192.0.2.2:1000", password); got != 200 {
			t.Errorf("another address: %d", got)
		}
		for range 5 {
			try("[2001:db8::1]:1", "guess")
		}
		if got := try("[2001:db8::2]:1", "guess"); got != 429 {
			t.Errorf("another address of the same IPv6 network: %d", got)
		}
		<-time.After(2 * time.Second)
		if got := try("192.0.2.1:2000", password); got != 200 {
			t.Errorf("after the pause: %d", got)
		}
	})
}

func TestOpenPathsAreLimitedPerAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, &fake{health: gate.Health{OK: true}}, limited(3))
		for range 3 {
			c.do("GET", "/openapi.yaml", "", "Authorization", "")
		}
		if resp := c.do("GET", "/openapi.yaml", "", "Authorization", ""); resp.StatusCode != 429 {
			t.Errorf("openapi: %d", resp.StatusCode)
		}
		// A probe of this instance may share its address with many clusters.
		for range 3 {
			if resp := c.do("GET", "/health", "", "Authorization", ""); resp.StatusCode != 200 {
				t.Errorf("health: %d", resp.StatusCode)
			}
		}
		if resp := c.do("GET", "/health", "", "Authorization", ""); resp.StatusCode != 429 {
			t.Errorf("health: %d", resp.StatusCode)
		}
		if resp := c.do("GET", "/system/services", ""); resp.StatusCode != 200 {
			t.Errorf("a caller: %d", resp.StatusCode)
		}
	})
}

// ?wait= on replicas answers when nothing is under way, or with what there is when the wait is over. It
// follows what changes, and asks the store before it answers, and each minute.
func TestWaitForReplicas(t *testing.T) {
	at := func(phase string) *view.Replicas {
		f := example()
		if phase == "replica applying" {
			f.Members[1].Status.Phase = "applying"
		} else {
			f.Phase = record.Phase(phase)
		}
		return &view.Replicas{Federation: f, StreamRevision: 4711}
	}
	gone := &fault.Error{Code: fault.CodeNotFound, Message: "there is no such service"}
	lost := &fault.Error{Code: fault.CodeUnavailable, Message: "etcd is not available"}
	read, watch := []string{"Replicas"}, []string{"Replicas", "WatchReplicas"}
	tests := []struct {
		name, query string
		phases      []string
		end         error
		calls       []string
		status      int
		phase       string
	}{
		{"no wait", "", []string{"applying"}, nil, read, 200, "applying"},
		{"settled at once", "?wait=30s", []string{"ready"}, nil, read, 200, "ready"},
		{"settles", "?wait=30s", []string{"preparing", "applying", "replica applying", "ready", "changing"}, nil, slices.Concat(watch, read), 200, "ready"},
		{"rolls back", "?wait=30s", []string{"rolling_back", "rolled_back"}, nil, slices.Concat(watch, read), 200, "rolled_back"},
		{"does not settle", "?wait=9m30s", []string{"changing"}, nil, slices.Concat(slices.Repeat(watch, 10), read), 200, "changing"},
		{"is deleted", "?wait=30s", []string{"deleting"}, gone, watch, 404, ""},
		{"the store is lost", "?wait=10m", []string{"changing", "lost"}, nil, slices.Concat(watch, read), 503, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				now := tt.phases[0]
				f.replicas = func() *view.Replicas { return at(now) }
				f.watch = func(ctx context.Context, since int64, fn func(*view.Replicas) error) error {
					if since != 4711 {
						t.Errorf("since %d", since)
					}
					for _, phase := range tt.phases[1:] {
						if now = phase; phase == "lost" {
							f.err = lost
							break
						}
						if err := fn(at(phase)); err != nil {
							return err
						}
					}
					if tt.end != nil {
						return tt.end
					}
					<-ctx.Done()
					return context.Cause(ctx)
				}
				resp := newClient(t, f).do("GET", "/system/replicas/a"+tt.query, "")
				if body := bodyOf(t, resp); resp.StatusCode != tt.status || tt.phase != "" && !contains(body, `"phase":"`+tt.phase+`","coordinator"`) {
					t.Errorf("got %d %s", resp.StatusCode, body)
				}
				var calls []string
				for _, call := range f.calls {
					calls = append(calls, call.name)
				}
				if diff := cmp.Diff(tt.calls, calls); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A read that waits counts as a watch.
func TestReadsThatWaitAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSource().fake()
		f.replicas = func() *view.Replicas { return viewAt(7, "applying") }
		srv := newServer(t, f, byHeader, func(cfg *server.Config) { cfg.MaxWatches = 2 })
		handler := srv.Handler()
		one := watchIn(t, handler, "/system/replicas/a?wait=10m", "X-Caller", "ann")
		two := watchIn(t, handler, "/system/replicas/a?watch=true", "X-Caller", "ann")
		for _, path := range []string{"/system/replicas/b?wait=1s", "/system/replicas/b?watch=true"} {
			if c := watchIn(t, handler, path, "X-Caller", "ann"); !c.ended() || c.status != 429 || c.header.Get("Retry-After") != "15" {
				t.Errorf("%s: answered %d %v", path, c.status, c.header)
			}
		}
		if c := watchIn(t, handler, "/system/replicas/b?wait=0s", "X-Caller", "ann"); !c.ended() || c.status != 200 {
			t.Errorf("one that does not wait: %d", c.status)
		}
		if c := watchIn(t, handler, "/system/replicas/b?wait=10m", "X-Caller", "bob"); c.ended() {
			t.Errorf("one of another caller: %d", c.status)
		}
		two.gone()
		if !two.ended() || one.ended() {
			t.Error("the wrong one was ended")
		}
		if c := watchIn(t, handler, "/system/replicas/b?wait=10m", "X-Caller", "ann"); c.ended() {
			t.Errorf("afterwards: %d", c.status)
		}
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if n := srv.WatchingCallers(); n != 0 {
			t.Errorf("%d callers who wait for nothing are remembered", n)
		}
	})
}

// TestAnswersThatACallerDoesNotReadAreBounded: each is held until it is sent. Other callers are answered.
func TestAnswersThatACallerDoesNotReadAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{service: &oscar.Service{Name: "a", Script: strings.Repeat("x", 1<<20)}}
		s := serve(t, server.ServeConfig{Handler: newServer(t, f, byHeader).Handler()})
		statusOf := func(caller string) string {
			conn := s.dial(t)
			if _, err := io.WriteString(conn, "GET /system/services/a HTTP/1.1\r\nHost: api\r\nX-Caller: "+caller+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			status := make([]byte, len("HTTP/1.1 200"))
			if _, err := io.ReadFull(conn, status); err != nil { // and no more of it
				t.Fatal(err)
			}
			return string(status[len("HTTP/1.1 "):])
		}
		answered := map[string]int{}
		for range server.DefaultMaxPlainReads + 10 {
			answered[statusOf("ann")]++
		}
		if answered["200"] != server.DefaultMaxPlainReads || answered["429"] != 10 {
			t.Errorf("answered %v", answered)
		}
		if status := statusOf("bob"); status != "200" {
			t.Errorf("another caller is answered %s", status)
		}
		<-time.After(time.Minute) // what is not read is cut
		if status := statusOf("ann"); status != "200" {
			t.Errorf("afterwards: %s", status)
		}
	})
}

// What is beyond a limit is refused before the control plane is asked for anything. Invocations and logs count
// together: each holds an answer that its caller may not read.
func TestChangesAndAnswersAtATimeAreLimited(t *testing.T) {
	type request struct{ method, path string }
	for name, c := range map[string]struct {
		limit   func(*server.Config)
		body    string
		first   request
		made    int // the status of the first
		refused []request
		// free is not counted, and done is of the same kind, with its status.
		free, done request
		status     int
	}{
		"changes": {
			limit: func(cfg *server.Config) { cfg.MaxChanges = 1 }, body: service,
			first: request{"POST", "/system/services?wait=10m"}, made: 201,
			refused: []request{
				{"POST", "/system/services?wait=10m"}, {"PUT", "/system/services"}, {"DELETE", "/system/services/a?wait=1s"}, {"POST", "/system/services/a/stop"},
				{"POST", "/system/federation/a"}, {"POST", "/system/federations"}, {"DELETE", "/system/replicas/a?all=true"}, {"POST", "/system/replicas/a/rollback"}, {"DELETE", "/system/clusters/a"},
				{"POST", "/system/buckets"}, {"PUT", "/system/quotas/user/a"}, {"DELETE", "/system/volumes/a"}, {"DELETE", "/system/logs/a"}, {"DELETE", "/system/logs/a/j"}, {"POST", "/system/services/a/restart"},
			},
			free: request{"GET", "/system/replicas/a"}, done: request{"DELETE", "/system/services/a"}, status: 204,
		},
		"invocations and logs": {
			limit: func(cfg *server.Config) { cfg.MaxAnswers = 1 },
			first: request{"POST", "/run/a"}, made: 200,
			refused: []request{{"POST", "/run/a"}, {"GET", "/system/logs/a/j"}},
			free:    request{"GET", "/system/logs/a"}, done: request{"GET", "/system/logs/a/j"}, status: 200,
		},
		"jobs": {
			limit: func(cfg *server.Config) { cfg.MaxChanges = 1 }, body: service,
			first: request{"POST", "/job/a"}, made: 201,
			refused: []request{{"POST", "/job/a"}, {"PUT", "/system/services"}},
			free:    request{"GET", "/system/replicas/a"}, done: request{"POST", "/job/a"}, status: 201,
		},
		"plain reads": {
			limit: func(cfg *server.Config) { cfg.MaxPlainReads = 1 },
			first: request{"GET", "/system/services/a"}, made: 200,
			refused: []request{
				{"GET", "/system/services/a"}, {"GET", "/system/services"}, {"GET", "/system/replicas/a"}, {"GET", "/system/replicas"}, {"GET", "/system/federations"},
				{"GET", "/system/jobs"}, {"GET", "/system/events"}, {"GET", "/system/audit"}, {"GET", "/system/clusters"}, {"GET", "/system/status"},
			},
			free: request{"GET", "/system/logs/a"}, done: request{"GET", "/system/services/a"}, status: 200,
		},
		"other reads that ask clusters": {
			limit: func(cfg *server.Config) { cfg.MaxReads = 1 },
			first: request{"GET", "/system/logs/a"}, made: 200,
			refused: []request{
				{"GET", "/system/logs/a"}, {"GET", "/system/buckets"}, {"GET", "/system/buckets/a"}, {"GET", "/system/volumes"}, {"GET", "/system/quotas/user"},
				{"GET", "/system/metrics"}, {"GET", "/system/config"},
			},
			free: request{"GET", "/system/logs/a/j"}, done: request{"GET", "/system/logs/a"}, status: 200,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, entered, release, _ := blocking()
				f.deleted, f.replicas, f.jobList = &federations.DeleteResult{}, func() *view.Replicas { return viewAt(7, "ready") }, &runs.JobList{}
				f.service = &oscar.Service{Name: "a"}
				f.run = func(req runs.Request) (*runs.Answer, error) { return answering(200, nil, http.NoBody, 0)(req) }
				client := newClient(t, f, byHeader, c.limit)
				send := func(r request, caller string) *http.Response {
					body := c.body
					if r.method == "GET" {
						body = ""
					}
					return client.do(r.method, r.path, body, "X-Caller", caller)
				}
				first := make(chan int)
				go func() { first <- send(c.first, "ann").StatusCode }()
				<-entered
				f.before = nil
				for _, r := range c.refused {
					if resp := send(r, "ann"); resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "1" {
						t.Errorf("%v: answered %d %v", r, resp.StatusCode, resp.Header)
					}
				}
				if n := f.count(); n != 1 {
					t.Errorf("the control plane was asked %d times", n)
				}
				if resp := send(c.free, "ann"); resp.StatusCode != 200 {
					t.Errorf("%v: %d", c.free, resp.StatusCode)
				}
				if resp := send(c.done, "bob"); resp.StatusCode != c.status {
					t.Errorf("%v of another caller: %d", c.done, resp.StatusCode)
				}
				close(release)
				if status := <-first; status != c.made {
					t.Errorf("the first: %d", status)
				}
				if resp := send(c.done, "ann"); resp.StatusCode != c.status {
					t.Errorf("%v afterwards: %d", c.done, resp.StatusCode)
				}
			})
		})
	}
}

// sentFrom notes where in memory the bytes of an answer are.
type sentFrom struct {
	http.ResponseWriter
	first *byte
}

func (w *sentFrom) Write(b []byte) (int, error) {
	w.first = &b[0]
	return w.ResponseWriter.Write(b)
}

// TestTheDescriptionIsInMemoryOnce: whoever asks for it need not log in, nor read it.
func TestTheDescriptionIsInMemoryOnce(t *testing.T) {
	handler := newServer(t, &fake{}).Handler()
	var at [2]*byte
	for i := range at {
		w := &sentFrom{ResponseWriter: httptest.NewRecorder()}
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.yaml", nil))
		at[i] = w.first
	}
	if at[0] == nil || at[0] != at[1] {
		t.Errorf("it is sent from %p and %p", at[0], at[1])
	}
}

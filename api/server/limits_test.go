package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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

// A change beyond the limit is refused before the control plane is asked for anything.
func TestChangesAtATimeAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, entered, release, _ := blocking()
		f.deleted, f.replicas = &federations.DeleteResult{}, func() *view.Replicas { return viewAt(7, "ready") }
		c := newClient(t, f, byHeader, func(cfg *server.Config) { cfg.MaxChanges = 1 })
		first := make(chan int)
		go func() { first <- c.do("POST", "/system/services?wait=10m", service, "X-Caller", "ann").StatusCode }()
		<-entered
		f.before = nil
		for path, method := range map[string]string{
			"/system/services?wait=10m": "POST", "/system/services": "PUT", "/system/services/a?wait=1s": "DELETE", "/system/services/a/stop": "POST",
			"/system/federation/a": "POST", "/system/federations": "POST", "/system/replicas/a?all=true": "DELETE", "/system/replicas/a/rollback": "POST", "/system/clusters/a": "DELETE",
		} {
			if resp := c.do(method, path, service, "X-Caller", "ann"); resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "1" {
				t.Errorf("%s %s: answered %d %v", method, path, resp.StatusCode, resp.Header)
			}
		}
		if n := f.count(); n != 1 {
			t.Errorf("the control plane was asked %d times", n)
		}
		if resp := c.do("GET", "/system/replicas/a", "", "X-Caller", "ann"); resp.StatusCode != 200 {
			t.Errorf("a read: %d", resp.StatusCode)
		}
		if resp := c.do("DELETE", "/system/services/a", "", "X-Caller", "bob"); resp.StatusCode != 204 {
			t.Errorf("a change of another caller: %d", resp.StatusCode)
		}
		close(release)
		if status := <-first; status != 201 {
			t.Errorf("the first change: %d", status)
		}
		if resp := c.do("DELETE", "/system/services/a", "", "X-Caller", "ann"); resp.StatusCode != 204 {
			t.Errorf("afterwards: %d", resp.StatusCode)
		}
	})
}

// Invocations and logs count together: each holds an answer that its caller may not read.
func TestAnswersAtATimeAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, entered, release, _ := blocking()
		f.run = func(req runs.Request) (*runs.Answer, error) { return answering(200, nil, http.NoBody, 0)(req) }
		f.jobList = &runs.JobList{}
		c := newClient(t, f, byHeader, func(cfg *server.Config) { cfg.MaxAnswers = 1 })
		first := make(chan int)
		go func() { first <- c.do("POST", "/run/a", "", "X-Caller", "ann").StatusCode }()
		<-entered
		f.before = nil
		for path, method := range map[string]string{"/run/a": "POST", "/system/logs/a/j": "GET"} {
			if resp := c.do(method, path, "", "X-Caller", "ann"); resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "1" {
				t.Errorf("%s %s: answered %d %v", method, path, resp.StatusCode, resp.Header)
			}
		}
		if n := f.count(); n != 1 {
			t.Errorf("the control plane was asked %d times", n)
		}
		if resp := c.do("GET", "/system/logs/a", "", "X-Caller", "ann"); resp.StatusCode != 200 {
			t.Errorf("a list of jobs: %d", resp.StatusCode)
		}
		if resp := c.do("POST", "/run/a", "", "X-Caller", "bob"); resp.StatusCode != 200 {
			t.Errorf("an invocation of another caller: %d", resp.StatusCode)
		}
		close(release)
		if status := <-first; status != 200 {
			t.Errorf("the first invocation: %d", status)
		}
		if resp := c.do("GET", "/system/logs/a/j", "", "X-Caller", "ann"); resp.StatusCode != 200 {
			t.Errorf("afterwards: %d", resp.StatusCode)
		}
	})
}

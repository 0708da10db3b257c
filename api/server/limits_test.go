package server_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
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

// ?wait= on replicas answers when nothing is under way, or with what there is
// when the wait is over.
func TestWaitForReplicas(t *testing.T) {
	phases := func(list ...string) func() *view.Replicas {
		i := -1
		return func() *view.Replicas {
			i = min(i+1, len(list)-1)
			f := example()
			if list[i] == "replica applying" {
				f.Members[1].Status.Phase = "applying"
			} else {
				f.Phase = record.Phase(list[i])
			}
			return &view.Replicas{Federation: f}
		}
	}
	tests := []struct {
		name, query string
		phases      []string
		calls       int
		phase       string
	}{
		{"no wait", "", []string{"applying"}, 1, "applying"},
		{"settled at once", "?wait=30s", []string{"ready"}, 1, "ready"},
		{"settles", "?wait=30s", []string{"preparing", "applying", "replica applying", "ready"}, 4, "ready"},
		{"rolls back", "?wait=30s", []string{"rolling_back", "rolled_back"}, 2, "rolled_back"},
		{"does not settle", "?wait=900ms", []string{"changing"}, 4, "changing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{replicas: phases(tt.phases...)}
				body := bodyOf(t, newClient(t, f).do("GET", "/system/replicas/a"+tt.query, ""))
				if !contains(body, `"phase":"`+tt.phase+`","coordinator"`) {
					t.Errorf("got %s", body)
				}
				if f.count() != tt.calls {
					t.Errorf("asked %d times, want %d", f.count(), tt.calls)
				}
			})
		})
	}
}

package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/wire"
)

// bearers authenticates users of one issuer, for audience oscar and group physics.
func bearers(t *testing.T, i *issuer.Issuer, reach *http.Transport) identity.Schemes {
	t.Helper()
	i.User("somebody", map[string]any{"group_membership": []string{"physics"}})
	basic, err := identity.NewBasic(user, password)
	if err != nil {
		t.Fatal(err)
	}
	oidc, err := identity.NewOIDC(identity.OIDCConfig{Issuers: []string{i.URL}, Audiences: []string{"oscar"}, Groups: []string{"physics"}, Transport: reach})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- oidc.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	schemes := identity.Schemes{Basic: basic, Bearer: oidc}
	for {
		r := httptest.NewRequest(http.MethodGet, "/system/info", nil)
		r.Header.Set("Authorization", "Bearer "+i.Token("somebody", nil))
		_, err := schemes.Authenticate(r)
		if err == nil {
			return schemes
		}
		if errors.Is(err, identity.ErrUnauthenticated) || t.Context().Err() != nil {
			t.Fatal(err)
		}
		<-time.After(time.Millisecond)
	}
}

// TestARenewedTokenIsNotLockedOut by failed logins of others at the address where its user was let in; nor is it told
// from a made-up one elsewhere, or once its user is let in no more.
func TestARenewedTokenIsNotLockedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := wire.ForTest(t)
		i := issuer.Serve(t, n.Host("issuer").MustListen(t), "")
		schemes := bearers(t, i, n.Host("api").Transport(nil))
		for _, who := range []string{"ann", "bob"} {
			i.User(who, map[string]any{"group_membership": []string{"physics"}})
		}
		handler := newServer(t, &fake{}, limited(5), func(cfg *server.Config) { cfg.Authenticator = schemes }).Handler()
		try := func(address, token string) int {
			r := httptest.NewRequest("GET", "/system/services", nil)
			r.RemoteAddr = address + ":1"
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Code
		}
		serial := 0
		another := func(who string) string {
			serial++
			return i.Token(who, map[string]any{"jti": serial})
		}
		const here, elsewhere = "192.0.2.1", "192.0.2.2"
		if got := try(here, another("ann")); got != 200 {
			t.Fatal(got)
		}
		forged := func() string {
			parts, good := strings.Split(another("ann"), "."), strings.Split(another("bob"), ".")
			return parts[0] + "." + parts[1] + "." + good[2]
		}
		asked := func() int { return i.Calls("/userinfo") + i.Calls("/keys") }
		for _, tt := range []struct {
			what, address, token string
			want                 int
		}{
			{"her renewed token", here, another("ann"), 200},
			{"a token of another user", here, another("bob"), 429},
			{"a token in her name that its issuer has not signed", here, forged(), 429},
			{"her renewed token, after that", here, another("ann"), 200},
			{"her token from another address", elsewhere, another("ann"), 429},
			{"the token of a user who is let in no more", here, another("ann"), 401},
			{"another one of his", here, another("ann"), 429},
		} {
			if tt.want == 401 {
				i.User("ann", nil)
			}
			for try(tt.address, "guess") != 429 {
			}
			before := asked()
			if got := try(tt.address, tt.token); got != tt.want {
				t.Errorf("%s: %d, want %d", tt.what, got, tt.want)
			}
			if n := asked() - before; tt.want == 429 && n > 0 {
				t.Errorf("%s: the issuer was asked %d times", tt.what, n)
			}
		}
	})
}

// No route of the whole router lets a bad token through to its handler; a good one
// passes every route, so that it is the token that is refused.
func TestNoRouteWithABadToken(t *testing.T) {
	i, other := issuer.New(t, "/realms/science"), issuer.New(t, "")
	i.User("chess player", map[string]any{"group_membership": []string{"chess"}})
	schemes := bearers(t, i, nil)
	tokens := badTokens(t, i, other)
	open := openRoutes()
	f := &fake{err: &fault.Error{Code: fault.CodeNotFound, Message: "nothing"}}
	handler := newServer(t, f, func(cfg *server.Config) { cfg.Authenticator = schemes }).Handler()
	send := func(method, path, token string) int {
		r := httptest.NewRequest(method, path, strings.NewReader(service))
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	good := i.Token("somebody", nil)
	sent := 0
	for _, route := range routes(t) {
		if slices.Contains(open, route) {
			continue
		}
		method, pattern, _ := strings.Cut(route, " ")
		path := fill(pattern)
		for name, token := range tokens {
			sent++
			if code := send(method, path, token); code != http.StatusUnauthorized {
				t.Errorf("%s with a token that is %s: %d", route, name, code)
			}
		}
		if n := f.count(); n != 0 {
			t.Fatalf("%s reached the control plane", route)
		}
		if code := send(method, path, good); code == http.StatusUnauthorized {
			t.Errorf("%s refuses a good token", route)
		}
		f.mu.Lock()
		f.calls = nil
		f.mu.Unlock()
	}
	t.Logf("%d bad tokens were sent", sent)
	if sent < 2150 {
		t.Errorf("only %d bad tokens were sent", sent)
	}
}

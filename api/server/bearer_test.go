package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/test/issuer"
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

package openid_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/openid"
)

// authenticator knows a realm's tokens.
func authenticator(t *testing.T, cfg identity.OIDCConfig) *identity.OIDC {
	t.Helper()
	o, err := identity.NewOIDC(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return o
}

// authenticate waits until the realm is known.
func authenticate(t *testing.T, o *identity.OIDC, token string) (identity.Caller, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/system/info", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	var caller identity.Caller
	var err error
	await.Until(t, "the issuer is known", func() bool {
		caller, err = o.Authenticate(r)
		return err == nil || errors.Is(err, identity.ErrUnauthenticated)
	})
	return caller, err
}

func TestUsersOfAProvider(t *testing.T) {
	realm := provider.Realm(t, openid.Science)
	realm.User("alice@science.example", map[string]any{"name": "Alice", "group_membership": []string{"chess", "physics"}})
	realm.User("bob", map[string]any{"group_membership": []string{"chess"}})
	realm.User("carol", map[string]any{})
	var skew atomic.Int64
	o := authenticator(t, identity.OIDCConfig{
		Issuers: []string{realm.Issuer()}, Audiences: []string{"oscar"}, Groups: []string{"physics"},
		Now: func() time.Time { return time.Now().Add(time.Duration(skew.Load())) },
	})
	alice := realm.Login("alice@science.example", openid.Public)
	elsewhere := realm.Login("alice@science.example", openid.Client{ID: openid.Public.ID, Audience: "elsewhere"})
	revoked := realm.Login("alice@science.example", openid.Public)
	realm.RevokeGrant(revoked.Refresh, openid.Public)
	other := provider.Realm(t, openid.EGI)
	other.User("alice@science.example", map[string]any{"group_membership": []string{"physics"}})

	for name, c := range map[string]struct {
		token   string
		subject string
	}{
		"in the group":               {alice.Access, "alice@science.example"},
		"in another group":           {realm.Token("bob", nil), ""},
		"in no group":                {realm.Token("carol", nil), ""},
		"for another audience":       {elsewhere.Access, ""},
		"an ID token":                {alice.ID, ""},
		"a refresh token":            {alice.Refresh, ""},
		"of a grant that is revoked": {revoked.Access, ""},
		"of another realm":           {other.Token("alice@science.example", nil), ""},
		"with another's signature":   {alice.Access[:strings.LastIndex(alice.Access, ".")] + elsewhere.Access[strings.LastIndex(elsewhere.Access, "."):], ""},
	} {
		caller, err := authenticate(t, o, c.token)
		if c.subject == "" && !errors.Is(err, identity.ErrUnauthenticated) || c.subject != "" && (err != nil || caller.Subject != c.subject) {
			t.Errorf("%s: %q, %v", name, caller.Subject, err)
		}
	}
	skew.Store(int64(2 * time.Hour))
	if _, err := authenticate(t, o, alice.Access); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("an expired token is accepted: %v", err)
	}
}

// What userinfo told holds until the token expires.
func TestUserinfoIsAskedOnceForEachToken(t *testing.T) {
	realm := provider.Realm(t, openid.Science)
	realm.User("dora", map[string]any{"group_membership": []string{"physics"}})
	o := authenticator(t, identity.OIDCConfig{Issuers: []string{realm.Issuer()}, Groups: []string{"physics"}})
	first := realm.Login("dora", openid.Public)
	for range 3 {
		if _, err := authenticate(t, o, first.Access); err != nil {
			t.Fatal(err)
		}
		realm.User("dora", map[string]any{}) // she has left
	}
	if _, err := authenticate(t, o, realm.Token("dora", nil)); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("her next token is accepted: %v", err)
	}
}

func TestGroupsAsEGITellsThem(t *testing.T) {
	realm := provider.Realm(t, openid.EGI)
	realm.User("erin", map[string]any{"entitlements": []string{"urn:mace:egi.eu:group:vo.physics.example:role=member#aai.egi.eu"}})
	o := authenticator(t, identity.OIDCConfig{Issuers: []string{realm.Issuer()}, Groups: []string{"vo.physics.example"}})
	if _, err := authenticate(t, o, realm.Token("erin", nil)); err != nil {
		t.Error(err)
	}
	realm.User("frank", map[string]any{"group_membership": []string{"vo.physics.example"}})
	if _, err := authenticate(t, o, realm.Token("frank", nil)); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("a group that EGI does not tell so is accepted: %v", err)
	}
}

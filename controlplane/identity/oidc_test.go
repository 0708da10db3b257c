package identity_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/wire"
)

// start runs an authenticator until the test ends.
func start(t *testing.T, cfg identity.OIDCConfig) *identity.OIDC {
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

func request(header string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/system/info", nil)
	if header != "" {
		r.Header.Set("Authorization", header)
	}
	return r
}

// known waits until an issuer's tokens can be checked.
func known(t *testing.T, o *identity.OIDC, i *issuer.Issuer) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		_, err := o.Authenticate(request("Bearer " + i.Token("somebody", nil)))
		if err == nil || errors.Is(err, identity.ErrUnauthenticated) {
			return
		}
		select {
		case <-late:
			t.Fatalf("the issuer was never known: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestOIDC(t *testing.T) {
	good, other := issuer.New(t, ""), issuer.New(t, "/other")
	o := start(t, identity.OIDCConfig{Issuers: []string{good.URL}, Audiences: []string{"another", "oscar"}, Groups: []string{"physics"}})
	physicist := map[string]any{"group_membership": []string{"chess", "physics"}}
	for _, subject := range []string{"somebody", "a@egi.eu", "x/y z", strings.Repeat("s", 255), strings.Repeat("s", 256), "cluster_admin"} {
		good.User(subject, physicist)
		other.User(subject, physicist)
	}
	good.User("chess player", map[string]any{"group_membership": []string{"chess"}})
	good.User("odd claims", map[string]any{"group_membership": "physics"})
	good.User("two faces", map[string]any{"group_membership": []string{"physics"}, "sub": "somebody"})
	known(t, o, good)
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	claims := fmt.Sprintf(`{"iss":%q,"sub":"somebody","aud":"oscar","exp":%d}`, good.URL, time.Now().Add(time.Hour).Unix())
	token := good.Token("somebody", nil)

	tests := []struct{ name, header, subject string }{
		{"right", "Bearer " + token, "somebody"},
		{"again, from memory", "Bearer " + token, "somebody"},
		{"scheme in lower case", "bearer " + token, "somebody"},
		{"subject with an at sign", "Bearer " + good.Token("a@egi.eu", nil), "a@egi.eu"},
		{"subject with a slash and a space", "Bearer " + good.Token("x/y z", nil), "x/y z"},
		{"longest subject", "Bearer " + good.Token(strings.Repeat("s", 255), nil), strings.Repeat("s", 255)},
		{"several audiences", "Bearer " + good.Token("somebody", map[string]any{"aud": []string{"x", "oscar"}}), "somebody"},

		{"none", "", ""},
		{"empty", "Bearer ", ""},
		{"basic", "Basic " + token, ""},
		{"too long a subject", "Bearer " + good.Token(strings.Repeat("s", 256), nil), ""},
		{"no subject", "Bearer " + good.Token("somebody", map[string]any{"sub": nil}), ""},
		{"the administrator's name", "Bearer " + good.Token("cluster_admin", nil), ""},
		{"issuer that is not listed", "Bearer " + other.Token("somebody", nil), ""},
		{"listed issuer, foreign key", "Bearer " + good.Sign(foreign, "k", "RS256", "somebody", nil), ""},
		{"listed issuer's name, another's token", "Bearer " + other.Token("somebody", map[string]any{"iss": good.URL}), ""},
		{"expired", "Bearer " + good.Token("somebody", map[string]any{"exp": time.Now().Add(-time.Second).Unix()}), ""},
		{"without expiry", "Bearer " + good.Token("somebody", map[string]any{"exp": nil}), ""},
		{"not valid yet", "Bearer " + good.Token("somebody", map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), ""},
		{"wrong audience", "Bearer " + good.Token("somebody", map[string]any{"aud": "oscar2"}), ""},
		{"no audience", "Bearer " + good.Token("somebody", map[string]any{"aud": nil}), ""},
		{"not in the group", "Bearer " + good.Token("chess player", nil), ""},
		{"group as a text", "Bearer " + good.Token("odd claims", nil), ""},
		{"unknown to userinfo's groups", "Bearer " + good.Token("nobody", nil), ""},
		{"userinfo of another subject", "Bearer " + good.Token("two faces", nil), ""},
		{"an ID token", "Bearer " + good.Token("somebody", map[string]any{"nonce": "n"}), ""},
		{"alg none", "Bearer " + part(`{"alg":"none"}`) + "." + part(claims) + ".", ""},
		{"alg none with a signature", "Bearer " + part(`{"alg":"none"}`) + "." + part(claims) + "." + part("x"), ""},
		{"signature cut off", "Bearer " + token[:strings.LastIndex(token, ".")+1], ""},
		{"claims exchanged", "Bearer " + strings.Split(token, ".")[0] + "." + part(claims) + "." + strings.Split(token, ".")[2], ""},
		{"shared secret made of the public key", "Bearer " + good.Sign(x509.MarshalPKCS1PublicKey(&foreign.PublicKey), "k", "HS256", "somebody", nil), ""},
		{"no JWT", "Bearer abc", ""},
		{"three parts of nothing", "Bearer ..", ""},
		{"not base64", "Bearer a.%%%.c", ""},
		{"a service's token", "Bearer " + strings.Repeat("0123456789abcdef", 4), ""},
		{"oversized", "Bearer " + good.Token("somebody", map[string]any{"pad": strings.Repeat("x", identity.MaxToken)}), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			caller, err := o.Authenticate(request(tt.header))
			if tt.subject == "" {
				if !errors.Is(err, identity.ErrUnauthenticated) || caller != (identity.Caller{}) {
					t.Fatalf("got %v, %v; want ErrUnauthenticated", caller, err)
				}
				return
			}
			if err != nil || caller.Subject != tt.subject || caller.Administrator {
				t.Fatalf("got %v, %v", caller, err)
			}
			if got, _ := caller.Token(); !strings.HasSuffix(tt.header, got) || caller.Issuer() != good.URL || !caller.InGroup("physics") || caller.InGroup("biology") {
				t.Fatalf("the caller is from %q, in physics: %v", caller.Issuer(), caller.InGroup("physics"))
			}
		})
	}
}

// Groups are told in three ways, and by the issuer's own claim alone.
func TestOIDCGroupsAsOSCARReadsThem(t *testing.T) {
	all := map[string]any{
		"entitlements":     []any{"urn:mace:egi.eu:group:vo.example.eu:role=member#aai.egi.eu", "urn:mace:egi.eu:res:gocdb#x", "urn:mace:egi.eu:group:bare", 7},
		"realm_access":     map[string]any{"roles": []string{"platform-access"}},
		"group_membership": []string{"/plain"},
	}
	tests := []struct {
		path string
		in   []string
	}{
		{"/auth/realms/egi", []string{"vo.example.eu", "bare"}},
		{"/realms/ai4eosc", []string{"platform-access"}},
		{"/realms/science", []string{"/plain"}},
		{"", []string{"/plain"}},
	}
	for _, tt := range tests {
		i := issuer.New(t, tt.path)
		i.User("somebody", all)
		o := start(t, identity.OIDCConfig{Issuers: []string{i.URL}})
		known(t, o, i)
		caller, err := o.Authenticate(request("Bearer " + i.Token("somebody", nil)))
		if err != nil {
			t.Fatalf("%s: %v", tt.path, err)
		}
		for _, group := range []string{"vo.example.eu", "bare", "platform-access", "/plain", ""} {
			want := false
			for _, g := range tt.in {
				want = want || g == group
			}
			if caller.InGroup(group) != want {
				t.Errorf("issuer %s: in group %q is %v", tt.path, group, !want)
			}
		}
	}
}

// An issuer that is down stops neither the start nor the others; its tokens are not
// refused but cannot be checked, and are when it is back.
func TestOIDCIssuerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := wire.ForTest(t)
		up, down := issuer.Serve(t, n.Host("up").MustListen(t), ""), issuer.Serve(t, n.Host("down").MustListen(t), "/down")
		down.Answer(http.StatusServiceUnavailable)
		o := start(t, identity.OIDCConfig{Issuers: []string{down.URL, up.URL}, Transport: n.Host("api").Transport(nil)})
		known(t, o, up)
		header := "Bearer " + down.Token("somebody", nil)
		if _, err := o.Authenticate(request(header)); err == nil || errors.Is(err, identity.ErrUnauthenticated) {
			t.Fatalf("got %v; want an error that does not blame the caller", err)
		}
		down.Answer(0)
		known(t, o, down)

		// Later its userinfo fails: who was checked before is known, others have to wait.
		if _, err := o.Authenticate(request(header)); err != nil {
			t.Fatal(err)
		}
		down.Answer(http.StatusBadGateway)
		if _, err := o.Authenticate(request(header)); err != nil {
			t.Fatalf("a token that was checked before: %v", err)
		}
		if _, err := o.Authenticate(request("Bearer " + down.Token("somebody", nil))); err == nil || errors.Is(err, identity.ErrUnauthenticated) {
			t.Fatalf("got %v; want an error that does not blame the caller", err)
		}
	})
}

// What was found about a token holds until it expires, and not longer.
func TestOIDCAsksOncePerToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, i := inMemory(t, identity.OIDCConfig{})
		known(t, o, i)
		before := i.Calls("/userinfo")
		header := "Bearer " + i.Token("somebody", nil)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := o.Authenticate(request(header)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if asked := i.Calls("/userinfo") - before; asked != 1 {
			t.Errorf("userinfo was asked %d times", asked)
		}
		<-time.After(2 * time.Hour)
		if _, err := o.Authenticate(request(header)); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("an expired token from memory: %v", err)
		}
	})
}

// The issuer's new keys are found when a token names one, and made-up key ids do
// not make us ask it without end.
func TestOIDCKeysRotate(t *testing.T) {
	i := issuer.New(t, "")
	o := start(t, identity.OIDCConfig{Issuers: []string{i.URL}})
	known(t, o, i)
	old := i.Token("somebody", nil)
	i.Rotate()
	if _, err := o.Authenticate(request("Bearer " + i.Token("somebody", nil))); err != nil {
		t.Fatalf("a token of the new key: %v", err)
	}
	if _, err := o.Authenticate(request("Bearer " + old)); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Fatalf("a token of the former key: %v", err)
	}
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	before := i.Calls("/keys")
	for n := range 200 {
		if _, err := o.Authenticate(request("Bearer " + i.Sign(foreign, fmt.Sprint(n), "RS256", "somebody", nil))); err == nil {
			t.Fatal("a foreign key was accepted")
		}
	}
	if asked := i.Calls("/keys") - before; asked > 20 {
		t.Errorf("200 made-up keys made %d requests", asked)
	}
}

// A caller who hangs up does not spoil the answer for the others.
func TestOIDCCallerHangsUp(t *testing.T) {
	i := issuer.New(t, "")
	o := start(t, identity.OIDCConfig{Issuers: []string{i.URL}})
	known(t, o, i)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	header := "Bearer " + i.Token("somebody", nil)
	_, _ = o.Authenticate(request(header).WithContext(ctx))
	if _, err := o.Authenticate(request(header)); err != nil {
		t.Fatal(err)
	}
}

func TestNewOIDCRefusesIssuers(t *testing.T) {
	for _, url := range []string{"", "login.example.org", "http://login.example.org", "https://user:x@login.example.org", "https://login.example.org?x=1", "ftp://login.example.org"} {
		if _, err := identity.NewOIDC(identity.OIDCConfig{Issuers: []string{url}}); err == nil {
			t.Errorf("issuer %q was accepted", url)
		}
	}
	if _, err := identity.NewOIDC(identity.OIDCConfig{}); err == nil {
		t.Error("no issuer was accepted")
	}
}

// A token never shows when a caller is printed.
func TestCallerPrintsNoToken(t *testing.T) {
	i := issuer.New(t, "")
	o := start(t, identity.OIDCConfig{Issuers: []string{i.URL}})
	known(t, o, i)
	token := i.Token("somebody", nil)
	caller, err := o.Authenticate(request("Bearer " + token))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprint(caller), fmt.Sprintf("%+v", caller), fmt.Sprintf("%#v", caller), caller.LogValue().String()} {
		if s != "somebody" {
			t.Errorf("printed as %q", s)
		}
	}
}

package token_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/syncer/token"
	"github.com/oscarfed/oscarfed/test/issuer"
)

const secretToken = "refresh-token-that-nobody-may-see"

func issuersOf(t *testing.T, list ...token.Issuer) *token.Issuers {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s, err := token.NewIssuers(list, transport, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// provider is an issuer whose discovery says what a test wants.
func provider(t *testing.T, doc func(base string) map[string]any, answer http.HandlerFunc) string {
	t.Helper()
	var base string
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		all := map[string]any{"issuer": base, "authorization_endpoint": base + "/auth", "jwks_uri": base + "/keys", "token_endpoint": base + "/token"}
		maps.Copy(all, doc(base))
		_ = json.NewEncoder(w).Encode(all)
	})
	mux.HandleFunc("/", answer)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	base = server.URL
	return base
}

func nothing(string) map[string]any { return nil }

// The token goes to the token endpoint of an issuer that was configured, by https or
// on loopback, and nowhere else: not to where that redirects, not twice with two ways of
// authentication, and not into an error.
func TestWhereATokenIsNeverSent(t *testing.T) {
	t.Parallel()
	var stray atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			stray.Add(1)
		}
	}))
	t.Cleanup(elsewhere.Close)
	for name, c := range map[string]struct {
		doc    func(base string) map[string]any
		answer http.HandlerFunc
		posts  int64
		says   string
	}{
		"a redirect": {nothing, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, 1, "307"},
		"an endpoint without TLS": {func(string) map[string]any { return map[string]any{"token_endpoint": "http://login.example.org/token"} },
			func(http.ResponseWriter, *http.Request) {}, 0, "https"},
		"a revocation endpoint without TLS": {func(string) map[string]any {
			return map[string]any{"revocation_endpoint": "http://login.example.org/revoke"}
		},
			func(http.ResponseWriter, *http.Request) {}, 0, "https"},
		"another issuer's name": {func(string) map[string]any { return map[string]any{"issuer": "https://login.example.org"} },
			func(http.ResponseWriter, *http.Request) {}, 0, "discovery"},
		"an error that quotes it": {nothing, func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			http.Error(w, "bad token "+r.PostForm.Get("refresh_token"), http.StatusInternalServerError)
		}, 1, "500"},
		"a refusal of the client": {nothing, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"invalid_client"}`))
		}, 1, "refuses the client"},
		"an answer without an end": {nothing, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"access_token":"`))
			for range 64 {
				_, _ = w.Write([]byte(strings.Repeat("x", 1<<15)))
			}
		}, 1, "no token"},
		"a token that is too long": {nothing, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"access_token":"` + strings.Repeat("x", 20_000) + `"}`))
		}, 1, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var posts atomic.Int64
			url := provider(t, c.doc, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					posts.Add(1)
				}
				c.answer(w, r)
			})
			s := issuersOf(t, token.Issuer{URL: url, ClientID: "oscarfed", Secret: "client-secret"})
			_, err := s.Exchange(t.Context(), &token.Stored{Refresh: secretToken, Issuer: url})
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), secretToken) || strings.Contains(err.Error(), "client-secret") {
				t.Errorf("error %v, want %q in it", err, c.says)
			}
			if _, lost := errors.AsType[*token.RefusedError](err); lost {
				t.Errorf("the token is taken for lost: %v", err)
			}
			if posts.Load() != c.posts {
				t.Errorf("it was sent %d times, want %d", posts.Load(), c.posts)
			}
		})
	}
	t.Cleanup(func() {
		if stray.Load() != 0 {
			t.Error("it was sent to where the issuer redirects")
		}
	})
}

func TestWhichIssuerATokenIsOf(t *testing.T) {
	t.Parallel()
	one, two := issuer.New(t, "/one"), issuer.New(t, "/two")
	both := issuersOf(t, token.Issuer{URL: one.URL, ClientID: "x"}, token.Issuer{URL: two.URL})
	alone := issuersOf(t, token.Issuer{URL: one.URL})
	for name, c := range map[string]struct {
		of    *token.Issuers
		kept  token.Stored
		wrong string
	}{
		"its own":                            {both, token.Stored{Refresh: one.RefreshToken(user), Issuer: one.URL}, ""},
		"its own, and its client":            {both, token.Stored{Refresh: two.RefreshToken(user), Issuer: two.URL, ClientID: "azp"}, ""},
		"nobody said whose client":           {both, token.Stored{Refresh: secretToken, Issuer: two.URL}, "which client"},
		"one that was not configured":        {both, token.Stored{Refresh: secretToken, Issuer: "https://evil.example.org"}, "not among"},
		"nobody said, and there are two":     {both, token.Stored{Refresh: secretToken}, "several"},
		"nobody said, and there is one":      {alone, token.Stored{Refresh: one.RefreshToken(user), ClientID: "azp"}, ""},
		"there is none":                      {issuersOf(t), token.Stored{Refresh: secretToken, Issuer: one.URL}, "--oidc-issuer"},
		"a prefix of one that is configured": {both, token.Stored{Refresh: secretToken, Issuer: one.URL[:len(one.URL)-1]}, "not among"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.of.Exchange(t.Context(), &c.kept)
			if c.wrong == "" {
				if err != nil || got.Token == "" || !got.Expires.After(time.Now()) {
					t.Errorf("expires %v, error %v", got.Expires, err)
				}
				return
			}
			if _, conf := errors.AsType[*token.ConfigError](err); !conf || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("error %v, want %q in it", err, c.wrong)
			}
		})
	}
}

func TestNewIssuersRefuses(t *testing.T) {
	for name, list := range map[string][]token.Issuer{
		"plain http":        {{URL: "http://login.example.org"}},
		"no URL":            {{URL: "login"}},
		"with a user":       {{URL: "https://me:secret@login.example.org"}},
		"with a query":      {{URL: "https://login.example.org?x=y"}},
		"the same, twice":   {{URL: "https://a.example.org"}, {URL: "https://a.example.org"}},
		"one good, one not": {{URL: "https://a.example.org"}, {URL: "ftp://b"}},
	} {
		if _, err := token.NewIssuers(list, nil, time.Now); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

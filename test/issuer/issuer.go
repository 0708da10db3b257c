// Package issuer owns an OpenID provider for tests: discovery, keys, userinfo and
// tokens, with switches for what a real one does wrong.
package issuer

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
)

// Issuer is one provider, reached at URL.
type Issuer struct {
	URL string

	t   testing.TB
	mu  sync.Mutex
	key *rsa.PrivateKey
	kid string
	// discovery serves what tells of the keys.
	discovery http.Handler
	// status is answered to every request; 0 when the provider is well.
	status int
	// held is closed when requests may be answered; nil when they may.
	held chan struct{}
	// info are the claims of a subject that userinfo answers with.
	info    map[string]map[string]any
	calls   map[string]int
	granted granted
}

// New starts a provider on the loopback, whose issuer ends in path, such as /realms/egi.
func New(t testing.TB, path string) *Issuer {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return Serve(t, l, path)
}

// Serve starts one at a listener.
func Serve(t testing.TB, l net.Listener, path string) *Issuer {
	t.Helper()
	i := &Issuer{t: t, info: map[string]map[string]any{}, calls: map[string]int{}}
	i.Grant(Grants{})
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: i, ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	i.URL = server.URL + path
	i.Rotate()
	return i
}

// Rotate replaces the signing key: tokens of the former one are good no more.
func (i *Issuer) Rotate() {
	i.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.kid = key, rand.Text()
	discovery := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: i.kid, Algorithm: "RS256"}}}
	discovery.SetIssuer(i.URL)
	i.discovery = discovery
}

// Answer makes the provider answer every request with a status; 0 makes it well.
func (i *Issuer) Answer(status int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.status = status
}

// Hang lets every request wait until release is called, or its caller goes away.
func (i *Issuer) Hang() (release func()) {
	held := make(chan struct{})
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held = held
	return sync.OnceFunc(func() {
		close(held)
		i.mu.Lock()
		defer i.mu.Unlock()
		i.held = nil
	})
}

// User sets the claims that userinfo tells of a subject, besides its sub.
func (i *Issuer) User(subject string, claims map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.info[subject] = claims
}

// Calls is how often a path below the issuer's was asked for: /userinfo, /keys.
func (i *Issuer) Calls(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.calls[path]
}

// Token is an access token of an hour for a subject; claims replace its own, and
// a nil one takes it away.
func (i *Issuer) Token(subject string, claims map[string]any) string {
	i.t.Helper()
	i.mu.Lock()
	key, kid := i.key, i.kid
	i.mu.Unlock()
	return i.Sign(key, kid, "RS256", subject, claims)
}

// Sign makes a token with somebody's key.
func (i *Issuer) Sign(key any, kid, alg, subject string, claims map[string]any) string {
	i.t.Helper()
	all := map[string]any{
		"iss": i.URL, "sub": subject, "aud": "oscar", "jti": rand.Text(),
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for k, v := range claims {
		if v == nil {
			delete(all, k)
			continue
		}
		all[k] = v
	}
	payload, err := json.Marshal(all)
	if err != nil {
		i.t.Fatal(err)
	}
	return oidctest.SignIDToken(key, kid, alg, string(payload))
}

// Issuer is URL.
func (i *Issuer) Issuer() string { return i.URL }

// Check says whose a token is, as one who knows the issuer's present
// key and the time would: claims of userinfo, as they are on the wire.
func (i *Issuer) Check(ctx context.Context, token string) (subject string, claims map[string]any, err error) {
	i.mu.Lock()
	key := i.key.Public()
	i.mu.Unlock()
	verifier := oidc.NewVerifier(i.URL, &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{key}}, &oidc.Config{SkipClientIDCheck: true})
	id, err := verifier.Verify(ctx, token)
	if err != nil {
		return "", nil, err
	}
	own, _ := claimsOf(token)
	i.mu.Lock()
	raw, err := json.Marshal(i.info[id.Subject])
	ended := i.granted.ended(own)
	i.mu.Unlock()
	if ended {
		return "", nil, errors.New("its grant is revoked")
	}
	if err != nil {
		return "", nil, err
	}
	return id.Subject, claims, json.Unmarshal(raw, &claims)
}

// ServeHTTP implements http.Handler.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	base := strings.TrimPrefix(i.URL, "http://"+r.Host)
	path := strings.TrimPrefix(r.URL.Path, base)
	i.mu.Lock()
	i.calls[path]++
	status, discovery, held := i.status, i.discovery, i.held
	i.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case status != 0:
		w.WriteHeader(status)
	case path == "/userinfo":
		i.userinfo(w, r)
	case path == "/token":
		i.exchange(w, r)
	case path == "/revoke":
		i.revoke(w, r)
	case path == "/.well-known/openid-configuration":
		i.discover(w, r, discovery)
	default:
		http.StripPrefix(base, discovery).ServeHTTP(w, r)
	}
}

// discover adds the endpoints of tokens and users to what oidctest tells.
func (i *Issuer) discover(w http.ResponseWriter, r *http.Request, discovery http.Handler) {
	rec := httptest.NewRecorder()
	r.URL.Path = "/.well-known/openid-configuration"
	discovery.ServeHTTP(rec, r)
	var doc map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		i.t.Errorf("discovery: %v", err)
	}
	doc["userinfo_endpoint"] = i.URL + "/userinfo"
	doc["token_endpoint"] = i.URL + "/token"
	i.mu.Lock()
	if !i.granted.NoRevocation {
		doc["revocation_endpoint"] = i.URL + "/revoke"
	}
	i.mu.Unlock()
	write(w, doc)
}

// userinfo answers with the claims of the token's subject. It does not check the
// signature: the one under test does. An ID token, told by its nonce, is refused, and so
// is what was given for a refresh token that is revoked.
func (i *Issuer) userinfo(w http.ResponseWriter, r *http.Request) {
	claims, ok := claimsOf(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if !ok || claims["nonce"] != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	subject, _ := claims["sub"].(string)
	i.mu.Lock()
	out, ended := maps.Clone(i.info[subject]), i.granted.ended(claims)
	i.mu.Unlock()
	if ended {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if out == nil {
		out = map[string]any{}
	}
	if out["sub"] == nil {
		out["sub"] = subject
	}
	write(w, out)
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

package oidcsim

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/go-jose/go-jose/v4"
)

// Provider is one issuer. It is safe for concurrent use.
type Provider struct {
	// URL is the issuer, as it stands in its tokens.
	URL string

	host, base string

	mu  sync.Mutex
	key *rsa.PrivateKey
	kid string
	// status is answered to every request; 0 when the provider is well.
	status int
	// held is closed when requests may be answered; nil when they may.
	held chan struct{}
	// info are the claims of a subject that userinfo answers with, passwords what users log in with.
	info      map[string]map[string]any
	passwords map[string]string
	calls     map[string]int
	granted   granted
	codes     map[string]*code
	devices   map[string]*device
}

// New makes an issuer that is reached at a URL, such as http://127.0.0.1:8081/realms/science.
func New(issuer string) (*Provider, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, err
	}
	p := &Provider{
		URL: issuer, host: u.Host, base: u.Path,
		info: map[string]map[string]any{}, passwords: map[string]string{}, calls: map[string]int{},
		codes: map[string]*code{}, devices: map[string]*device{},
	}
	p.Grant(Grants{})
	return p, p.Rotate()
}

// Rotate replaces the signing key: tokens of the former one are good no more.
func (p *Provider) Rotate() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.kid = key, rand.Text()
	return nil
}

// Answer makes the provider answer every request with a status; 0 makes it well.
func (p *Provider) Answer(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

// Hang lets every request wait until release is called, or its caller goes away.
func (p *Provider) Hang() (release func()) {
	held := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
	return sync.OnceFunc(func() {
		close(held)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.held = nil
	})
}

// User sets the claims that userinfo tells of a subject, besides its sub.
func (p *Provider) User(subject string, claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info[subject] = claims
}

// Password sets what a subject logs in with; without one, the name is enough.
func (p *Provider) Password(subject, password string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passwords[subject] = password
}

// Calls is how often a path below the issuer's was asked for: /userinfo, /keys.
func (p *Provider) Calls(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[path]
}

// Issuer is URL.
func (p *Provider) Issuer() string { return p.URL }

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ours := strings.CutPrefix(r.URL.Path, p.base)
	if r.Host != p.host { // a page whose own name was made to lead to this machine
		http.Error(w, "this issuer is "+p.URL, http.StatusMisdirectedRequest)
		return
	}
	p.mu.Lock()
	p.calls[path]++
	status, held := p.status, p.held
	p.mu.Unlock()
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
	case !ours:
		http.NotFound(w, r)
	case allowPages(w, r):
	default:
		p.serve(w, r, path)
	}
}

func (p *Provider) serve(w http.ResponseWriter, r *http.Request, path string) {
	switch path {
	case "/.well-known/openid-configuration":
		p.discovery(w)
	case "/keys":
		p.keys(w)
	case "/userinfo":
		p.userinfo(w, r)
	case "/authorize":
		p.authorize(w, r)
	case "/device":
		p.verifyDevice(w, r)
	case "/device/authorize":
		p.authorizeDevice(w, r)
	case "/token":
		p.exchange(w, r)
	case "/revoke":
		p.revoke(w, r)
	default:
		http.NotFound(w, r)
	}
}

// allowPages lets pages of this machine call (CORS), as those of a dashboard that is being made. It
// answers true when there is nothing more to say.
func allowPages(w http.ResponseWriter, r *http.Request) bool {
	origin, err := url.Parse(r.Header.Get("Origin"))
	if err != nil || !loopback(origin) {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	w.Header().Set("Vary", "Origin")
	if r.Method != http.MethodOptions {
		return false
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

func (p *Provider) discovery(w http.ResponseWriter) {
	doc := map[string]any{
		"issuer": p.URL, "jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/userinfo", "token_endpoint": p.URL + "/token",
		"authorization_endpoint": p.URL + "/authorize", "device_authorization_endpoint": p.URL + "/device/authorize",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"}, "code_challenge_methods_supported": []string{"S256"},
		"scopes_supported": []string{"openid", "profile", "email", "offline_access"},
	}
	p.mu.Lock()
	if !p.granted.NoRevocation {
		doc["revocation_endpoint"] = p.URL + "/revoke"
	}
	change := p.granted.Change
	p.mu.Unlock()
	change("/.well-known/openid-configuration", doc)
	write(w, http.StatusOK, doc)
}

func (p *Provider) keys(w http.ResponseWriter) {
	p.mu.Lock()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: p.kid, Algorithm: "RS256", Use: "sig"}}}
	p.mu.Unlock()
	write(w, http.StatusOK, set)
}

// userinfo answers with the claims of the token's subject. It does not check the
// signature: a control plane under test does. An ID token, told by its nonce, is refused, and so
// is what was given for a refresh token that is revoked.
func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	claims, ok := claimsOf(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if !ok || claims["nonce"] != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	subject, _ := claims["sub"].(string)
	p.mu.Lock()
	out, ended := maps.Clone(p.info[subject]), p.granted.ended(claims)
	p.mu.Unlock()
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
	write(w, http.StatusOK, out)
}

// subjects are the users, by name.
func (p *Provider) subjects() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.info))
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) //nolint:errchkjson // the caller has gone: the error has no reader
}

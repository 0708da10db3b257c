package oidcsim

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Grants says how a provider gives tokens. The zero value is one that gives access tokens of an hour
// to any client, and never rotates refresh tokens.
type Grants struct {
	// Rotate gives a new refresh token with each access token, and revokes the whole
	// family when one is used a second time.
	Rotate bool
	// Lifetime of an access token, to the second; default an hour.
	Lifetime time.Duration
	// ClientID and Secret that are demanded; empty demands none.
	ClientID, Secret string
	// NoRevocation leaves the revocation endpoint out.
	NoRevocation bool
	// OneSession ends, when a refresh token is revoked, all that its client has of its subject, as
	// Keycloak does.
	OneSession bool
	// Forgets makes a refresh token that was replaced one that is not known: to revoke it ends nothing.
	Forgets bool
	// Revoking is called with each revocation, before it is looked at.
	Revoking func()
	// Before and After are called with each exchange, before it is looked at and when
	// its answer is ready. A status other than 0 is answered instead.
	Before, After func() int
	// Change is given what discovery and the endpoints /token and /device/authorize are about to
	// answer, and may change it.
	Change func(path string, answer map[string]any)
}

// family is a refresh token with those that were given in its place.
type family struct {
	// id stands in the access tokens that were given for one of them.
	id      string
	subject string
	client  string
	current string
	used    []string
	revoked bool
}

// granted is what a provider has given.
type granted struct {
	Grants
	families []*family
	// exchanges and reuses count refresh tokens that were answered with a token, and the uses
	// of one that was used before.
	exchanges, reuses int
}

// Grant sets how tokens are given.
func (p *Provider) Grant(g Grants) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g.Lifetime == 0 {
		g.Lifetime = time.Hour
	}
	if g.Change == nil {
		g.Change = func(string, map[string]any) {}
	}
	p.granted.Grants = g
}

// RefreshToken gives a refresh token of a subject. It is opaque.
func (p *Provider) RefreshToken(subject string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.granted.begin(subject, "").current
}

// begin starts a family.
func (g *granted) begin(subject, client string) *family {
	f := &family{id: rand.Text(), subject: subject, client: client, current: "refresh-" + rand.Text()}
	g.families = append(g.families, f)
	return f
}

// Exchanges is how many access tokens were given for refresh tokens, and reuses how
// often one was used that was used before.
func (p *Provider) Exchanges() (exchanges, reuses int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.granted.exchanges, p.granted.reuses
}

// Revoked says whether the family of a refresh token is revoked.
func (p *Provider) Revoked(token string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.granted.of(token)
	return f != nil && f.revoked
}

// RevokeNow revokes the family of a refresh token, as its user would at the provider.
func (p *Provider) RevokeNow(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.granted.of(token); f != nil {
		f.revoked = true
	}
}

func (g *granted) of(token string) *family {
	for _, f := range g.families {
		if f.current == token || slices.Contains(f.used, token) {
			return f
		}
	}
	return nil
}

// ended says whether a token was given for a refresh token that is revoked.
func (g *granted) ended(claims map[string]any) bool {
	for _, f := range g.families {
		if f.id == claims["grant"] && f.revoked {
			return true
		}
	}
	return false
}

// client says which client a request is of, and whether it is the demanded one.
func (g *granted) client(r *http.Request) (id string, ok bool) {
	id, secret, basic := r.BasicAuth()
	if basic {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	return id, (g.ClientID == "" || g.ClientID == id) && (g.Secret == "" || g.Secret == secret)
}

// refusal is the error of a token endpoint (RFC 6749 5.2).
type refusal struct {
	status int
	code   string
}

// exchange answers the token endpoint.
func (p *Provider) exchange(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	before, after, change := p.granted.Before, p.granted.After, p.granted.Change
	p.mu.Unlock()
	if before != nil {
		if status := before(); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	answer, refused := p.give(r)
	if after != nil {
		if status := after(); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	if refused != nil {
		write(w, refused.status, map[string]any{"error": refused.code, "error_description": "grant request is invalid"})
		return
	}
	change("/token", answer)
	write(w, http.StatusOK, answer)
}

// give answers what a grant is worth.
func (p *Provider) give(r *http.Request) (map[string]any, *refusal) {
	if err := r.ParseForm(); err != nil {
		return nil, &refusal{http.StatusBadRequest, "invalid_request"}
	}
	p.mu.Lock()
	client, ok := p.granted.client(r)
	p.mu.Unlock()
	if !ok {
		return nil, &refusal{http.StatusUnauthorized, "invalid_client"}
	}
	var l *login
	var f *family
	var refused *refusal
	switch r.PostForm.Get("grant_type") {
	case "refresh_token":
		f, refused = p.refresh(r.PostForm.Get("refresh_token"), client)
	case "authorization_code":
		l, refused = p.redeemCode(r, client)
	case "urn:ietf:params:oauth:grant-type:device_code":
		l, refused = p.redeemDevice(r, client)
	default:
		refused = &refusal{http.StatusBadRequest, "unsupported_grant_type"}
	}
	if refused != nil {
		return nil, refused
	}
	p.mu.Lock()
	if l != nil {
		f = p.granted.begin(l.subject, client)
	}
	refresh, lifetime := f.current, p.granted.Lifetime
	p.mu.Unlock()
	answer, err := p.tokens(f, l, client, lifetime)
	if err != nil {
		return nil, &refusal{http.StatusInternalServerError, "server_error"}
	}
	answer["refresh_token"] = refresh // the same one when it is not replaced
	return answer, nil
}

// tokens are those of a grant: an access token and, after a login, an ID token.
func (p *Provider) tokens(f *family, l *login, client string, lifetime time.Duration) (map[string]any, error) {
	claims := map[string]any{"exp": time.Now().Add(lifetime).Unix(), "grant": f.id}
	if client != "" {
		claims["azp"] = client
	}
	access, err := p.Token(f.subject, claims)
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"token_type": "Bearer", "access_token": access, "expires_in": int64(lifetime / time.Second)}
	if l == nil || !slices.Contains(strings.Fields(l.scope), "openid") {
		return answer, nil
	}
	answer["id_token"], err = p.idToken(f.subject, client, l.nonce, access)
	return answer, err
}

// refresh uses a refresh token once.
func (p *Provider) refresh(token, client string) (*family, *refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := &p.granted
	f := g.of(token)
	switch {
	case f == nil, f.revoked, f.client != "" && f.client != client:
		return nil, &refusal{http.StatusBadRequest, "invalid_grant"}
	case f.current != token:
		g.reuses++
		f.revoked = true
		return nil, &refusal{http.StatusBadRequest, "invalid_grant"}
	}
	g.exchanges++
	if g.Rotate {
		f.used = append(f.used, f.current)
		f.current = "refresh-" + rand.Text()
	}
	return f, nil
}

// revoke answers the revocation endpoint (RFC 7009): 200 also for a token that it
// does not know.
func (p *Provider) revoke(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	revoking := p.granted.Revoking
	p.mu.Unlock()
	if revoking != nil {
		revoking()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.granted.client(r); !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	token := r.PostForm.Get("token")
	ends := p.granted.of(token)
	if ends == nil || p.granted.Forgets && ends.current != token {
		return
	}
	for _, f := range p.granted.families {
		if f == ends || p.granted.OneSession && f.subject == ends.subject && f.client == ends.client {
			f.revoked = true
		}
	}
}

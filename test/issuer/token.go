package issuer

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Grants says how a provider gives tokens for refresh tokens. The zero value is one
// that gives access tokens of an hour to anybody's client, and never rotates.
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
	// Before and After are called with each exchange, before it is looked at and when
	// its answer is ready. A status other than 0 is answered instead.
	Before, After func() int
}

// family is a refresh token with those that were given in its place.
type family struct {
	// id stands in the access tokens that were given for one of them.
	id      string
	subject string
	current string
	used    []string
	revoked bool
}

// granted is what a provider has given.
type granted struct {
	Grants
	families []*family
	// exchanges and reuses count those that were answered with a token, and the uses
	// of a token that was used before.
	exchanges, reuses, revocations int
}

// Grant sets how tokens are given.
func (i *Issuer) Grant(g Grants) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if g.Lifetime == 0 {
		g.Lifetime = time.Hour
	}
	i.granted.Grants = g
}

// RefreshToken gives a refresh token of a subject. It is opaque.
func (i *Issuer) RefreshToken(subject string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	f := &family{id: rand.Text(), subject: subject, current: "refresh-" + rand.Text()}
	i.granted.families = append(i.granted.families, f)
	return f.current
}

// Exchanges is how many access tokens were given for refresh tokens, and reuses how
// often one was used that was used before.
func (i *Issuer) Exchanges() (exchanges, reuses int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.granted.exchanges, i.granted.reuses
}

// Revoked says whether the family of a refresh token is revoked, by whomever.
func (i *Issuer) Revoked(token string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	f := i.granted.of(token)
	return f != nil && f.revoked
}

// RevokeNow revokes the family of a refresh token, as its user would at the provider.
func (i *Issuer) RevokeNow(token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if f := i.granted.of(token); f != nil {
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

// client says whether a request is of the demanded client.
func (g *granted) client(r *http.Request) bool {
	id, secret, basic := r.BasicAuth()
	if basic {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	return (g.ClientID == "" || g.ClientID == id) && (g.Secret == "" || g.Secret == secret)
}

// exchange answers the token endpoint.
func (i *Issuer) exchange(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	before, after := i.granted.Before, i.granted.After
	i.mu.Unlock()
	if before != nil {
		if status := before(); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	status, answer := i.renew(r)
	if after != nil {
		if status := after(); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	write(w, answer)
}

func (i *Issuer) renew(r *http.Request) (int, map[string]any) {
	refuse := func(code string) (int, map[string]any) {
		return http.StatusBadRequest, map[string]any{"error": code, "error_description": "grant request is invalid"}
	}
	if err := r.ParseForm(); err != nil || r.PostForm.Get("grant_type") != "refresh_token" {
		return refuse("unsupported_grant_type")
	}
	i.mu.Lock()
	g := &i.granted
	token := r.PostForm.Get("refresh_token")
	f := g.of(token)
	switch {
	case !g.client(r):
		i.mu.Unlock()
		return http.StatusUnauthorized, map[string]any{"error": "invalid_client", "error_description": "client authentication failed"}
	case f == nil || f.revoked:
		i.mu.Unlock()
		return refuse("invalid_grant")
	case f.current != token:
		g.reuses++
		f.revoked = true
		i.mu.Unlock()
		return refuse("invalid_grant")
	}
	g.exchanges++
	lifetime := g.Lifetime
	answer := map[string]any{"token_type": "Bearer", "expires_in": int64(lifetime / time.Second)}
	if g.Rotate {
		f.used = append(f.used, f.current)
		f.current = "refresh-" + rand.Text()
	}
	answer["refresh_token"] = f.current // the same one when it is not replaced
	i.mu.Unlock()
	answer["access_token"] = i.Token(f.subject, map[string]any{"exp": time.Now().Add(lifetime).Unix(), "grant": f.id})
	return http.StatusOK, answer
}

// revoke answers the revocation endpoint (RFC 7009): 200 also for a token that it
// does not know.
func (i *Issuer) revoke(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.granted.client(r) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	i.granted.revocations++
	if f := i.granted.of(r.PostForm.Get("token")); f != nil {
		f.revoked = true
	}
}

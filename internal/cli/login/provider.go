package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/openid"
	"github.com/oscarfed/oscarfed/internal/outbound"
)

const (
	// defaultLife is the life of an access token that does not say how long it lives.
	defaultLife = 5 * time.Minute
	// maxShown bounds what is shown of an issuer's own words, in bytes.
	maxShown = 300
	// maxToken bounds a token, in bytes.
	maxToken = 16 << 10
)

// Provider is an issuer, as one of its public clients sees it.
type Provider struct {
	issuer     string
	oidc       *oidc.Provider
	config     oauth2.Config
	transport  *http.Transport
	observed   *observed
	revocation string
	now        func() time.Time
}

// Discover asks an issuer for its endpoints. Tokens are sent over https, or to this machine.
func Discover(ctx context.Context, issuer, clientID string) (*Provider, error) {
	return discover(ctx, issuer, clientID, time.Now)
}

func discover(ctx context.Context, issuer, clientID string, now func() time.Time) (*Provider, error) {
	if err := openid.CheckIssuer(issuer); err != nil {
		return nil, exit.Usagef("%w", err)
	}
	p := &Provider{issuer: issuer, now: now, observed: &observed{now: now}, transport: outbound.Transport(nil)}
	found, err := oidc.NewProvider(p.with(ctx), issuer)
	if err != nil {
		return nil, p.failed(ctx, err)
	}
	var more struct {
		Revocation string   `json:"revocation_endpoint"`
		Scopes     []string `json:"scopes_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return nil, p.failed(ctx, err)
	}
	p.oidc, p.revocation = found, more.Revocation
	p.config = oauth2.Config{ClientID: clientID, Endpoint: found.Endpoint(), Scopes: scopes(more.Scopes)}
	p.config.Endpoint.AuthStyle = oauth2.AuthStyleInParams // the client has no secret
	for _, e := range []struct{ name, url string }{
		{"token endpoint", p.config.Endpoint.TokenURL}, {"device endpoint", p.config.Endpoint.DeviceAuthURL},
		{"authorization endpoint", p.config.Endpoint.AuthURL}, {"revocation endpoint", p.revocation},
	} {
		if e.url != "" && !private(e.url) {
			return nil, exit.Errorf(exit.Failed, "issuer %s: its %s %.200q must be reached by https", issuer, e.name, e.url)
		}
	}
	return p, nil
}

// private says whether nobody can read on its way what is sent to an address.
func private(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && u.User == nil && outbound.Private(u)
}

// Scope replaces the scopes that are asked for.
func (p *Provider) Scope(scopes []string) { p.config.Scopes = withOpenID(scopes) }

// HasDevice says whether the issuer has a device endpoint.
func (p *Provider) HasDevice() bool { return p.config.Endpoint.DeviceAuthURL != "" }

// Ahead is how far the issuer's clock is ahead of this machine's.
func (p *Provider) Ahead() time.Duration { return time.Duration(p.observed.ahead.Load()) }

// Close closes idle connections.
func (p *Provider) Close() { p.transport.CloseIdleConnections() }

// scopes are those to ask an issuer for that says which it has.
func scopes(supported []string) []string {
	if len(supported) == 0 { // it does not say
		return openid.LoginScopes()
	}
	wanted := append(openid.LoginScopes(), openid.GroupScopes()...)
	return withOpenID(slices.DeleteFunc(wanted, func(s string) bool { return !slices.Contains(supported, s) }))
}

func withOpenID(scopes []string) []string {
	if slices.Contains(scopes, oidc.ScopeOpenID) {
		return scopes
	}
	return append([]string{oidc.ScopeOpenID}, scopes...)
}

// with has requests of the libraries sent as requests to the issuer are, until ctx ends.
func (p *Provider) with(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client(ctx))
}

// client sends requests to the issuer until ctx ends.
func (p *Provider) client(ctx context.Context) *http.Client {
	return &http.Client{
		Transport: &whole{next: p.transport, observed: p.observed, until: ctx},
		// A redirected POST would take the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// record makes a login of the tokens that were given, once their ID token is verified. An ID token
// must be there, with the nonce, when there is a nonce. The issuer gave it over its own connection,
// so its life is counted by the issuer's clock: that of this machine may be wrong.
func (p *Provider) record(ctx context.Context, got *oauth2.Token, nonce string) (Record, error) {
	raw, ok := got.Extra("id_token").(string)
	if !ok && nonce != "" {
		return Record{}, exit.Errorf(exit.Failed, "issuer %s: gave no ID token: whom it logged in is not known", p.issuer)
	}
	if ok {
		id, err := p.oidc.VerifierContext(p.with(ctx), &oidc.Config{
			ClientID: p.config.ClientID, Now: func() time.Time { return p.now().Add(p.Ahead()) },
		}).Verify(p.with(ctx), raw)
		switch {
		case err != nil:
			return Record{}, p.failed(ctx, err, raw, got.AccessToken, got.RefreshToken)
		case id.Nonce != nonce:
			return Record{}, exit.Errorf(exit.Failed, "issuer %s: the ID token has another nonce: it answers another login", p.issuer)
		case id.AccessTokenHash != "" && id.VerifyAccessToken(got.AccessToken) != nil:
			return Record{}, exit.Errorf(exit.Failed, "issuer %s: the ID token is not that of the access token", p.issuer)
		}
	}
	return p.renewed(Record{}, got)
}

// renewed is a login with the tokens that were given last.
func (p *Provider) renewed(r Record, got *oauth2.Token) (Record, error) {
	refresh := cmp.Or(got.RefreshToken, r.RefreshToken)
	if !isToken(got.AccessToken) || refresh != "" && !isToken(refresh) {
		return Record{}, exit.Errorf(exit.Failed, "issuer %s: gave what is no token", p.issuer)
	}
	r.Issuer, r.ClientID = p.issuer, p.config.ClientID
	r.AccessToken, r.RefreshToken = got.AccessToken, refresh
	r.Expires = p.expiry(got)
	return r, nil
}

// expiry is when a token expires, by this machine's clock.
func (p *Provider) expiry(got *oauth2.Token) time.Time {
	if got.ExpiresIn > 0 {
		return p.now().Add(time.Duration(min(got.ExpiresIn, int64(maxLife/time.Second))) * time.Second)
	}
	if at := claimedExpiry(got.AccessToken); !at.IsZero() {
		return at.Add(-p.Ahead())
	}
	return p.now().Add(defaultLife)
}

// maxLife bounds what is believed of an access token's life.
const maxLife = 30 * 24 * time.Hour

// claimedExpiry is when a token says that it expires, by its issuer's clock; zero when it does not
// say, or nothing that can be.
func claimedExpiry(token string) time.Time {
	at := openid.Unproven(token).Expires
	if at <= 0 || at > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(at), 0)
}

// isToken says whether a text can be sent as a bearer token (RFC 6750 2.1, and what issuers send
// besides).
func isToken(s string) bool {
	return s != "" && len(s) <= maxToken && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Renew uses the refresh token of a login once.
func (p *Provider) Renew(ctx context.Context, r Record) (Record, error) {
	got, err := p.config.TokenSource(p.with(ctx), &oauth2.Token{RefreshToken: r.RefreshToken}).Token()
	if err != nil {
		if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.ErrorCode == "invalid_grant" {
			return r, exit.Errorf(exit.NotAuthorised, "issuer %s has ended the login: oscarfed login", p.issuer)
		}
		return r, p.failed(ctx, err, r.RefreshToken)
	}
	return p.renewed(r, got)
}

// Revoke ends a login at the issuer (RFC 7009). It is false when that has no endpoint for it.
func (p *Provider) Revoke(ctx context.Context, r Record) (bool, error) {
	if p.revocation == "" {
		return false, nil
	}
	form := url.Values{"token": {r.RefreshToken}, "token_type_hint": {"refresh_token"}, "client_id": {p.config.ClientID}}
	if r.RefreshToken == "" {
		form.Set("token", r.AccessToken)
		form.Set("token_type_hint", "access_token")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := p.client(ctx).Do(req)
	if err != nil {
		return false, p.failed(ctx, err, r.RefreshToken, r.AccessToken)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, exit.Errorf(exit.Failed, "issuer %s: answers the revocation with status %d", p.issuer, resp.StatusCode)
	}
	return true, nil
}

// failed says what went wrong at the issuer, without the secrets of the request.
func (p *Provider) failed(ctx context.Context, err error, secrets ...string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text, status := err.Error(), exit.Failed
	if away(err) || p.observed.status.Load() >= http.StatusInternalServerError {
		status = exit.NotReachable
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		text = e.Err.Error()
	}
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		text = e.ErrorCode
		if text == "" {
			text = "answers with status " + e.Response.Status
		}
		if e.ErrorDescription != "" {
			text += ": " + e.ErrorDescription
		}
	}
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[token]")
		}
	}
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "..."
	}
	return exit.Errorf(status, "%w", fmt.Errorf("issuer %s: %s", p.issuer, text))
}

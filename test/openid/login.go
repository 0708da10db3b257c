package openid

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"

	"golang.org/x/oauth2"
)

// Client is one that the provider knows.
type Client struct {
	ID, Secret string
	// Audience of the access tokens that are asked for; default oscar.
	Audience string
}

// The clients of provider.mjs.
var (
	// Public has no secret; its refresh tokens are replaced with each use.
	Public = Client{ID: "oscarfed"}
	// Steady is Public whose refresh tokens are never replaced.
	Steady = Client{ID: "steady"}
	// Confidential has a secret, with all that must be encoded in a request.
	Confidential = Client{ID: "confidential", Secret: "s3cret:+ %/&="}
)

// Tokens are what a login gives.
type Tokens struct{ Access, Refresh, ID string }

// callback is where the provider sends a browser that has logged in. Nobody listens.
const callback = "http://127.0.0.1/callback"

// Login logs a user in: the authorization code flow with PKCE, with a browser's cookies.
// Each login is a grant of its own.
func (r *Realm) Login(subject string, as Client) Tokens {
	r.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	browser := &http.Client{Transport: r.http.Transport, Timeout: r.http.Timeout, Jar: jar, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(next.URL.String(), callback+"?") {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	audience := as.Audience
	if audience == "" {
		audience = "oscar"
	}
	base := r.Issuer() + "/protocol/openid-connect"
	conf := oauth2.Config{
		ClientID: as.ID, ClientSecret: as.Secret, RedirectURL: callback, Scopes: []string{"openid", "profile", "groups"},
		Endpoint: oauth2.Endpoint{AuthURL: base + "/auth", TokenURL: base + "/token", AuthStyle: oauth2.AuthStyleInParams},
	}
	if as.Secret != "" {
		conf.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	verifier, state := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	where := conf.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("login_hint", subject),
		oauth2.SetAuthURLParam("resource", "https://"+audience+".example"))
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, where, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := browser.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = resp.Body.Close()
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || back.Query().Get("code") == "" || back.Query().Get("state") != state || back.Query().Get("iss") != r.Issuer() {
		r.t.Fatalf("%s is not logged in: %d, sent to %s, %v", subject, resp.StatusCode, back, err)
	}
	got, err := conf.Exchange(context.WithValue(r.t.Context(), oauth2.HTTPClient, r.http), back.Query().Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		r.t.Fatal(err)
	}
	id, _ := got.Extra("id_token").(string)
	return Tokens{Access: got.AccessToken, Refresh: got.RefreshToken, ID: id}
}

// Refresh uses a refresh token, as everything that has it can.
func (r *Realm) Refresh(refresh string, as Client) Tokens {
	r.t.Helper()
	conf := oauth2.Config{ClientID: as.ID, ClientSecret: as.Secret, Endpoint: oauth2.Endpoint{
		TokenURL: r.Issuer() + "/protocol/openid-connect/token", AuthStyle: oauth2.AuthStyleInParams,
	}}
	got, err := conf.TokenSource(context.WithValue(r.t.Context(), oauth2.HTTPClient, r.http), &oauth2.Token{RefreshToken: refresh}).Token()
	if err != nil {
		r.t.Fatal(err)
	}
	return Tokens{Access: got.AccessToken, Refresh: got.RefreshToken}
}

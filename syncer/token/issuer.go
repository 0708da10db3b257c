package token

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/oauth2"

	"github.com/oscarfed/oscarfed/internal/openid"
	"github.com/oscarfed/oscarfed/internal/outbound"
)

// Limits of requests to an issuer.
const (
	// callTimeout bounds one request.
	callTimeout = 15 * time.Second
	// maxAccess bounds an access token in bytes: an OSCAR takes no longer header.
	maxAccess = 16 << 10
	// maxRefresh bounds a refresh token in bytes: a Vault takes no longer one.
	maxRefresh = 16 << 10
	// discoveryLife is how long the endpoints of an issuer are kept.
	discoveryLife = 12 * time.Hour
	// silentAfter calls in a row without an answer, an issuer is called once every silentFor, and by one caller.
	silentAfter = 3
	silentFor   = 10 * time.Second
	// defaultLife is the life of an access token whose issuer says none.
	defaultLife = 5 * time.Minute
)

// Issuer is one that tokens are exchanged at.
type Issuer struct {
	// URL as it stands in its tokens' iss, letter by letter.
	URL string
	// ClientID is whom refresh tokens are given to; empty: whom the token at hand
	// was given to.
	ClientID string
	// Secret of that client; empty for a public one.
	Secret string
}

// String shows no secret.
func (i Issuer) String() string { return i.URL }

// GoString shows no secret.
func (i Issuer) GoString() string { return i.URL }

// Issuers speaks to the configured issuers. It is safe for concurrent use.
type Issuers struct {
	list   []Issuer
	client *http.Client
	now    func() time.Time
	// breakers by the issuers' URLs: calls that wait for one issuer keep nobody from the others.
	breakers map[string]*gobreaker.CircuitBreaker[struct{}]

	mu    sync.Mutex
	known map[string]endpoints
}

// endpoints of an issuer that was discovered.
type endpoints struct {
	token, revocation string
	style             oauth2.AuthStyle
	until             time.Time
}

// NewIssuers makes one. It sends nothing. transport may be nil; now is the clock.
func NewIssuers(list []Issuer, transport http.RoundTripper, now func() time.Time) (*Issuers, error) {
	var problems []error
	for i, one := range list {
		problems = append(problems, openid.CheckIssuer(one.URL))
		if slices.ContainsFunc(list[:i], func(o Issuer) bool { return o.URL == one.URL }) {
			problems = append(problems, fmt.Errorf("issuer %s is given twice", one.URL))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if transport == nil {
		transport = outbound.Transport(nil)
	}
	breakers := map[string]*gobreaker.CircuitBreaker[struct{}]{}
	for _, one := range list {
		breakers[one.URL] = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
			Timeout:      silentFor,
			ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= silentAfter },
			IsSuccessful: func(err error) bool { return !errors.Is(err, context.DeadlineExceeded) },
		})
	}
	return &Issuers{
		list: list, now: now, breakers: breakers, known: map[string]endpoints{},
		client: &http.Client{
			// Without a Timeout: each call's context has one, and an end by the client's own is not told as such by x/oauth2.
			Transport: openid.Bounded{Next: transport},
			// A redirected POST would take the token elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close closes idle connections.
func (s *Issuers) Close() { s.client.CloseIdleConnections() }

// ConfigError says that the syncer's configuration has to change before a token can be
// exchanged. It is tried again, seldom.
type ConfigError struct{ Message string }

// Error implements error.
func (e *ConfigError) Error() string { return e.Message }

// RefusedError says that the issuer does not accept the refresh token, and never will
// (RFC 6749 5.2: invalid_grant).
type RefusedError struct{ Issuer, Description string }

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Description == "" {
		return "issuer " + e.Issuer + " does not accept the refresh token any more"
	}
	return "issuer " + e.Issuer + " does not accept the refresh token any more: " + e.Description
}

// of finds the issuer of a token, and the client that it was given to.
func (s *Issuers) of(k *Stored) (Issuer, error) {
	i := slices.IndexFunc(s.list, func(o Issuer) bool { return o.URL == k.Issuer })
	switch {
	case len(s.list) == 0:
		return Issuer{}, &ConfigError{"the syncer has no issuer to exchange refresh tokens at: start it with --oidc-issuer"}
	case k.Issuer == "" && len(s.list) == 1:
		i = 0
	case k.Issuer == "":
		return Issuer{}, &ConfigError{"the refresh token came without its issuer, and the syncer has several: give the token with its issuer"}
	case i < 0:
		return Issuer{}, &ConfigError{fmt.Sprintf("the refresh token is of issuer %s, which is not among the syncer's --oidc-issuer", k.Issuer)}
	}
	iss := s.list[i]
	if iss.ClientID == "" {
		iss.ClientID = k.ClientID
	}
	if iss.ClientID == "" {
		return Issuer{}, &ConfigError{fmt.Sprintf("nobody said which client of %s the refresh token was given to: give it with the token, or to the syncer", iss.URL)}
	}
	return iss, nil
}

// UnusableError says that the issuer gave an access token that nobody can use. What it gave
// for the refresh token counts all the same.
type UnusableError struct{ Message string }

// Error implements error.
func (e *UnusableError) Error() string { return e.Message }

// Access is an access token with the refresh token that came with it.
type Access struct {
	Token   string
	Expires time.Time
	// Refresh takes the place of the one that was used; empty when that stays. A Keeper
	// keeps it to itself.
	Refresh string
	// RenewedAt is when a refresh token last came so; zero for never. Only a Keeper
	// fills it in.
	RenewedAt time.Time
}

// String shows no secret.
func (Access) String() string { return "an access token" }

// GoString shows no secret.
func (Access) GoString() string { return "an access token" }

// Exchange uses a refresh token once. Its errors: *ConfigError, *RefusedError, *UnusableError, with
// which the refresh token that it returns takes the place of the used one, or one that may pass,
// after which it is not known whether the token was used.
func (s *Issuers) Exchange(ctx context.Context, k *Stored) (Access, error) {
	return call(s, k, func(iss Issuer) (Access, error) { return s.exchange(ctx, iss, k) })
}

// call calls the issuer of a token, unless it has not answered the calls before.
func call[T any](s *Issuers, k *Stored, do func(Issuer) (T, error)) (out T, err error) {
	iss, err := s.of(k)
	if err != nil {
		return out, err
	}
	_, err = s.breakers[iss.URL].Execute(func() (struct{}, error) {
		var err error
		out, err = do(iss)
		return struct{}{}, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = notAsked(iss)
	}
	return out, err
}

func notAsked(iss Issuer) error {
	return fmt.Errorf("issuer %s does not answer, and was not asked again", iss.URL)
}

// Silent is the error of a call about a token that would not be made now, since its issuer does not answer; nil otherwise.
func (s *Issuers) Silent(k *Stored) error {
	iss, err := s.of(k)
	if err != nil {
		return nil //nolint:nilerr // the call itself tells
	}
	b := s.breakers[iss.URL]
	if state := b.State(); state == gobreaker.StateOpen || state == gobreaker.StateHalfOpen && b.Counts().Requests > 0 {
		return notAsked(iss)
	}
	return nil
}

func (s *Issuers) exchange(ctx context.Context, iss Issuer, k *Stored) (Access, error) {
	at, err := s.discover(ctx, iss)
	if err != nil {
		return Access{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, s.client), callTimeout)
	defer cancel()
	began := s.now()
	conf := oauth2.Config{ClientID: iss.ClientID, ClientSecret: iss.Secret, Endpoint: oauth2.Endpoint{TokenURL: at.token, AuthStyle: at.style}}
	got, err := conf.TokenSource(ctx, &oauth2.Token{RefreshToken: k.Refresh}).Token()
	if err != nil {
		return Access{}, s.refusal(ctx, iss, err)
	}
	if len(got.RefreshToken) > maxRefresh {
		return Access{}, fmt.Errorf("issuer %s gave a refresh token of more than %d bytes", iss.URL, maxRefresh)
	}
	var out Access
	if got.RefreshToken != k.Refresh {
		out.Refresh = got.RefreshToken
	}
	if len(got.AccessToken) > maxAccess {
		return out, &UnusableError{fmt.Sprintf("issuer %s gave an access token of more than %d bytes, which no OSCAR takes: "+
			"the issuer has to put less into it, such as fewer groups of the user", iss.URL, maxAccess)}
	}
	out.Token, out.Expires = got.AccessToken, expiry(got, began)
	return out, nil
}

// refusal tells the issuer's answers apart. The text of an error of x/oauth2 may quote
// the answer, which may hold a token: only the two words of the protocol are passed on.
func (s *Issuers) refusal(ctx context.Context, iss Issuer, err error) error {
	said, ok := errors.AsType[*oauth2.RetrieveError](err)
	// What RFC 6749 5.2 calls wrong with the client, and not with the token.
	clientErrors := []string{"invalid_client", "unauthorized_client", "unsupported_grant_type"} //nolint:misspell // the protocol's word
	switch {
	case !ok:
		if u, ok := errors.AsType[*url.Error](err); ok {
			return fmt.Errorf("issuer %s: %w", iss.URL, u.Err)
		}
		if ctx.Err() != nil { // while its answer was read
			return fmt.Errorf("issuer %s: %w", iss.URL, ctx.Err())
		}
		return fmt.Errorf("issuer %s gave no token", iss.URL)
	case said.ErrorCode == "invalid_grant":
		return &RefusedError{Issuer: iss.URL, Description: words(said.ErrorDescription)}
	case slices.Contains(clientErrors, said.ErrorCode):
		s.forget(iss)
		return &ConfigError{fmt.Sprintf("issuer %s refuses the client %q: %s", iss.URL, iss.ClientID, said.ErrorCode)}
	case said.Response.StatusCode >= 300 && said.Response.StatusCode < 500:
		s.forget(iss) // it may have moved
	}
	return fmt.Errorf("issuer %s answered %s", iss.URL, strings.TrimSpace(fmt.Sprint(said.Response.StatusCode, " ", words(said.ErrorCode))))
}

// words cuts what an issuer says to what belongs into a message.
func words(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text)
	return text[:min(len(text), 120)]
}

// expiry is counted from before the request, by our own clock: the issuer's may be
// another.
func expiry(got *oauth2.Token, began time.Time) time.Time {
	if got.ExpiresIn > 0 {
		return began.Add(time.Duration(min(got.ExpiresIn, 30*24*3600)) * time.Second)
	}
	return began.Add(defaultLife)
}

// Revoke revokes a refresh token at its issuer (RFC 7009). It answers false when the
// issuer has no endpoint for that. An error may pass, but for a *ConfigError.
func (s *Issuers) Revoke(ctx context.Context, k *Stored) (bool, error) {
	return call(s, k, func(iss Issuer) (bool, error) { return s.revoke(ctx, iss, k) })
}

func (s *Issuers) revoke(ctx context.Context, iss Issuer, k *Stored) (bool, error) {
	at, err := s.discover(ctx, iss)
	if err != nil || at.revocation == "" {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	form := url.Values{"token": {k.Refresh}, "token_type_hint": {"refresh_token"}}
	if at.style == oauth2.AuthStyleInParams {
		form.Set("client_id", iss.ClientID)
		if iss.Secret != "" {
			form.Set("client_secret", iss.Secret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return false, fmt.Errorf("issuer %s: its revocation endpoint is no URL", iss.URL)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if at.style == oauth2.AuthStyleInHeader {
		req.SetBasicAuth(url.QueryEscape(iss.ClientID), url.QueryEscape(iss.Secret))
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return false, fmt.Errorf("issuer %s: %w", iss.URL, err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return false, fmt.Errorf("issuer %s: %w", iss.URL, err)
	}
	switch {
	case resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNoContent:
		return true, nil
	case resp.StatusCode >= 400 && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusRequestTimeout:
		s.forget(iss)
		return false, &ConfigError{fmt.Sprintf("issuer %s refused to revoke the token: it answered %d", iss.URL, resp.StatusCode)}
	}
	return false, fmt.Errorf("issuer %s: its revocation endpoint answered %d", iss.URL, resp.StatusCode)
}

// discover finds the endpoints of an issuer.
func (s *Issuers) discover(ctx context.Context, iss Issuer) (endpoints, error) {
	s.mu.Lock()
	at, ok := s.known[iss.URL]
	s.mu.Unlock()
	if ok && s.now().Before(at.until) {
		return at, nil
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, s.client), callTimeout)
	defer cancel()
	p, err := oidc.NewProvider(ctx, iss.URL)
	if err != nil {
		return endpoints{}, fmt.Errorf("discovery of issuer %s: %w", iss.URL, err)
	}
	var more struct {
		Revocation string   `json:"revocation_endpoint"`
		Methods    []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := p.Claims(&more); err != nil {
		return endpoints{}, fmt.Errorf("discovery of issuer %s: %w", iss.URL, err)
	}
	at = endpoints{token: p.Endpoint().TokenURL, revocation: more.Revocation, until: s.now().Add(discoveryLife), style: oauth2.AuthStyleInParams}
	// Never tried both ways: the second try would use the token again. Without a word
	// of the issuer it is Basic (OpenID Connect Discovery 3).
	if iss.Secret != "" && (len(more.Methods) == 0 || slices.Contains(more.Methods, "client_secret_basic")) {
		at.style = oauth2.AuthStyleInHeader
	}
	for _, endpoint := range []string{at.token, at.revocation} {
		if u, err := url.Parse(endpoint); endpoint != "" && (err != nil || !outbound.Private(u)) {
			return endpoints{}, fmt.Errorf("issuer %s: its endpoint %q is not reached by https", iss.URL, endpoint)
		}
	}
	if at.token == "" {
		return endpoints{}, &ConfigError{fmt.Sprintf("issuer %s names no token endpoint", iss.URL)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[iss.URL] = at
	return at, nil
}

func (s *Issuers) forget(iss Issuer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, iss.URL)
}

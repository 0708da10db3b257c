package identity

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/cenkalti/backoff/v5"
	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/oscarfed/oscarfed/internal/openid"
)

// issuer is one configured issuer, discovered or not.
type issuer struct {
	url    string
	client *http.Client
	now    func() time.Time
	log    *slog.Logger
	known  atomic.Pointer[provider]
}

func newIssuer(url string, cfg OIDCConfig) *issuer {
	client := &http.Client{Transport: openid.Bounded{Next: cfg.Transport}, Timeout: checkTimeout}
	return &issuer{url: url, client: client, now: cfg.Now, log: cfg.Logger}
}

// discover asks until the issuer has told where its keys are.
func (i *issuer) discover(ctx context.Context) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 250*time.Millisecond, time.Minute
	for {
		p, err := i.ask(ctx)
		if err == nil {
			i.known.Store(p)
			i.log.Info("issuer is known", "issuer", i.url)
			return
		}
		if ctx.Err() != nil {
			return
		}
		pause := wait.NextBackOff()
		i.log.Warn("issuer cannot be reached; its users are not let in until it is", "issuer", i.url, "error", err, "again_in", pause.Round(time.Millisecond))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

func (i *issuer) ask(ctx context.Context) (*provider, error) {
	ask, cancel := context.WithTimeout(oidc.ClientContext(ctx, i.client), checkTimeout)
	defer cancel()
	p, err := oidc.NewProvider(ask, i.url)
	if err != nil {
		return nil, err
	}
	var more struct {
		Keys string `json:"jwks_uri"`
	}
	if err := p.Claims(&more); err != nil {
		return nil, err
	}
	if more.Keys == "" {
		return nil, errors.New("the issuer names no keys")
	}
	var names []string
	for _, a := range algorithms() {
		names = append(names, string(a))
	}
	return &provider{
		issuer: i,
		verifier: oidc.NewVerifier(i.url, newKeySet(more.Keys, i.client, i.now), &oidc.Config{
			SkipClientIDCheck:    true, // our own check knows several audiences
			SupportedSigningAlgs: names,
			Now:                  i.now,
		}),
		userinfo: p.UserInfoEndpoint(),
		dialect:  dialectOf(p.Endpoint().AuthURL),
	}, nil
}

// provider is an issuer that was discovered.
type provider struct {
	issuer   *issuer
	verifier *oidc.IDTokenVerifier
	// userinfo is empty when the issuer has none.
	userinfo string
	dialect  dialect
}

// verify answers ErrUnauthenticated for a token that is not good, and another
// error when the issuer's keys cannot be had.
func (p *provider) verify(ctx context.Context, token string) (*oidc.IDToken, error) {
	var outage error
	id, err := p.verifier.Verify(context.WithValue(ctx, outageKey{}, &outage), token)
	switch {
	case outage != nil:
		return nil, fmt.Errorf("keys of %s: %w", p.issuer.url, outage)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
	}
	return id, nil
}

// claims asks the issuer about the user. What it does not accept as an access
// token, such as an ID token, is refused.
func (p *provider) claims(ctx context.Context, id *oidc.IDToken, token string) (claims json.RawMessage, err error) {
	if p.userinfo == "" {
		if err := id.Claims(&claims); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
		}
		return claims, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.userinfo, nil)
	if err != nil {
		return nil, fmt.Errorf("userinfo of %s: %w", p.issuer.url, err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := p.issuer.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("userinfo of %s: %w", p.issuer.url, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("userinfo of %s: %w", p.issuer.url, err)
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest:
		return nil, fmt.Errorf("%w: userinfo answers %d", ErrUnauthenticated, resp.StatusCode)
	default:
		return nil, fmt.Errorf("userinfo of %s answers %d", p.issuer.url, resp.StatusCode)
	}
	var about struct {
		Subject string `json:"sub"`
	}
	if err := json.Unmarshal(body, &about); err != nil {
		return nil, fmt.Errorf("userinfo of %s: %w", p.issuer.url, err)
	}
	if about.Subject != id.Subject {
		// OpenID Connect Core 5.3.2: such an answer must not be used.
		return nil, fmt.Errorf("%w: userinfo speaks of another subject", ErrUnauthenticated)
	}
	return body, nil
}

// maxName bounds a user's name in bytes.
const maxName = 200

// nameOf is what an issuer calls a user; empty when that is no text for one line.
func nameOf(claims []byte) string {
	var c struct {
		Name      string `json:"name"`
		Preferred string `json:"preferred_username"`
	}
	if json.Unmarshal(claims, &c) != nil {
		return ""
	}
	name := cmp.Or(c.Name, c.Preferred)
	if len(name) > maxName || strings.ContainsFunc(name, unicode.IsControl) {
		return ""
	}
	return name
}

// dialect is how an issuer tells the groups of a user.
type dialect int

const (
	// dialectPlain: claim group_membership, an array of names.
	dialectPlain dialect = iota
	// dialectEGI: claim entitlements, URNs urn:mace:egi.eu:group:<vo>:...
	dialectEGI
	// dialectAI4EOSC: claim realm_access.roles.
	dialectAI4EOSC
)

// dialectOf tells it as OSCAR does, by the authorization endpoint.
func dialectOf(authorization string) dialect {
	switch {
	case strings.Contains(authorization, "/realms/egi"):
		return dialectEGI
	case strings.Contains(authorization, "/realms/ai4eosc"):
		return dialectAI4EOSC
	}
	return dialectPlain
}

// groups reads the user's groups out of claims; none when the claim is missing or
// has another shape.
func (d dialect) groups(claims []byte) []string {
	var c struct {
		Plain        any `json:"group_membership"`
		Entitlements any `json:"entitlements"`
		Realm        struct {
			Roles any `json:"roles"`
		} `json:"realm_access"`
	}
	if json.Unmarshal(claims, &c) != nil {
		return nil
	}
	switch d {
	case dialectEGI:
		var out []string
		for _, urn := range texts(c.Entitlements) {
			const prefix = "urn:mace:egi.eu:group:"
			if rest, ok := strings.CutPrefix(urn, prefix); ok {
				vo, _, _ := strings.Cut(rest, ":")
				out = append(out, vo)
			}
		}
		return out
	case dialectAI4EOSC:
		return texts(c.Realm.Roles)
	}
	return texts(c.Plain)
}

func texts(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		if s, ok := e.(string); ok && s != "" {
			out = append(out, s)
		}
	}
	return out
}

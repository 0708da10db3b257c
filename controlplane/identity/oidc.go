package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/oscarfed/oscarfed/internal/openid"
	"github.com/oscarfed/oscarfed/internal/outbound"
)

// MaxToken bounds a bearer token in bytes.
const MaxToken = 16 << 10

// checkTimeout bounds what one token costs at its issuer: keys and userinfo.
const checkTimeout = 10 * time.Second

// knownTimeout is how long a user waits for his issuer that it has vouched for within
// the hour.
const knownTimeout = 2 * time.Second

// OIDCConfig says whose tokens are accepted.
type OIDCConfig struct {
	// Issuers as they stand in the tokens' iss, letter by letter. An issuer is
	// reached by https, or by http on loopback.
	Issuers []string
	// Audiences: a token must be for one of them. Empty accepts every audience, as
	// an OSCAR Manager does.
	Audiences []string
	// Groups: the user must be in one of them. Empty accepts every user of the
	// issuers.
	Groups []string
	// Owners keeps users of different issuers apart; nil does not, which is for tests
	// of one issuer.
	Owners Owners
	// Transport reaches the issuers; default one that trusts the system's authorities.
	Transport *http.Transport
	Now       func() time.Time
	Logger    *slog.Logger
}

// Owners knows of which issuer a subject is.
type Owners interface {
	// BindOwner answers ErrUnauthenticated (wrapped) for the subject of another issuer's
	// user. The first issuer that a subject is seen of keeps it.
	BindOwner(ctx context.Context, subject, issuer string) error
}

// OIDC accepts access tokens that are JWTs of its issuers. Signature, issuer, expiry and
// audience are checked here, and then the issuer's userinfo says whether it is an access
// token at all and not revoked, and of which groups the user is. It is asked again after
// askAgain. While it cannot be asked, what it said last is believed, never past the
// token's expiry.
type OIDC struct {
	cfg     OIDCConfig
	issuers map[string]*issuer
	checked *cache
	checks  singleflight.Group
}

// NewOIDC makes an authenticator. It sends nothing: see Run.
func NewOIDC(cfg OIDCConfig) (*OIDC, error) {
	if cfg.Transport == nil {
		cfg.Transport = outbound.Transport(nil)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	o := &OIDC{cfg: cfg, issuers: map[string]*issuer{}, checked: newCache()}
	var problems []error
	for _, url := range cfg.Issuers {
		if err := openid.CheckIssuer(url); err != nil {
			problems = append(problems, err)
			continue
		}
		o.issuers[url] = newIssuer(url, cfg)
	}
	if len(cfg.Issuers) == 0 {
		problems = append(problems, errors.New("no issuer is given"))
	}
	return o, errors.Join(problems...)
}

// Run discovers the issuers, each by itself, until ctx ends: one that is down holds
// up neither the start nor the others, its tokens cannot be checked meanwhile.
func (o *OIDC) Run(ctx context.Context) error {
	defer o.cfg.Transport.CloseIdleConnections()
	g, ctx := errgroup.WithContext(ctx)
	for _, iss := range o.issuers {
		g.Go(func() error { iss.discover(ctx); return nil })
	}
	g.Go(func() error { <-ctx.Done(); return nil })
	return g.Wait()
}

// Authenticate implements Authenticator for `Authorization: Bearer <JWT>`.
func (o *OIDC) Authenticate(r *http.Request) (Caller, error) {
	token, ok := bearer(r)
	if !ok || token == "" || len(token) > MaxToken {
		return Caller{}, ErrUnauthenticated
	}
	iss, ok := o.issuers[openid.Unproven(token).Issuer]
	if !ok {
		return Caller{}, ErrUnauthenticated
	}
	key := sha256.Sum256([]byte(token))
	before, fresh, known := o.checked.get(key, o.cfg.Now())
	if fresh {
		return before, nil
	}
	// Requests with the same token wait for the same answer. The check does not end with the
	// first of them, whose caller may hang up.
	result := o.checks.DoChan(string(key[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), checkTimeout)
		defer cancel()
		caller, err := o.check(ctx, iss, token)
		switch {
		case err == nil:
			o.checked.put(key, caller, o.cfg.Now())
		case errors.Is(err, ErrUnauthenticated):
			o.checked.forget(key)
		default:
			o.checked.unasked(key, o.cfg.Now())
		}
		return caller, err
	})
	var late <-chan time.Time
	if known {
		late = time.After(knownTimeout)
	}
	select {
	case res := <-result:
		caller, _ := res.Val.(Caller)
		switch {
		case res.Err == nil:
			return caller, nil
		case known && !errors.Is(res.Err, ErrUnauthenticated):
			return before, nil
		}
		return Caller{}, res.Err
	case <-late:
		return before, nil
	case <-r.Context().Done():
		return Caller{}, context.Cause(r.Context())
	}
}

// Signed names the user whose token a request has, as Caller.User does, when his issuer has signed it and
// it has not expired: nobody can guess one. It asks nobody, so the token may be revoked, or no access
// token. Empty otherwise.
func (o *OIDC) Signed(r *http.Request) string {
	token, _ := bearer(r)
	if token == "" || len(token) > MaxToken {
		return ""
	}
	iss, ok := o.issuers[openid.Unproven(token).Issuer]
	if !ok {
		return ""
	}
	known := iss.known.Load()
	if known == nil {
		return ""
	}
	id, err := known.verify(context.WithValue(r.Context(), inHandKey{}, true), token)
	if err != nil {
		return ""
	}
	return userOf(iss.url, id.Subject)
}

func (o *OIDC) check(ctx context.Context, iss *issuer, token string) (Caller, error) {
	known := iss.known.Load()
	if known == nil {
		return Caller{}, fmt.Errorf("issuer %s has not been reached yet", iss.url)
	}
	id, err := known.verify(ctx, token)
	if err != nil {
		return Caller{}, err
	}
	if id.Subject == "" || len(id.Subject) > maxSubject || id.Subject == Admin {
		// Admin owns what the administrator makes: no user may be taken for him.
		return Caller{}, fmt.Errorf("%w: a subject has 1 to %d bytes and is not %s", ErrUnauthenticated, maxSubject, Admin)
	}
	if len(o.cfg.Audiences) > 0 && !slices.ContainsFunc(id.Audience, func(a string) bool { return slices.Contains(o.cfg.Audiences, a) }) {
		return Caller{}, fmt.Errorf("%w: the token is for another audience", ErrUnauthenticated)
	}
	claims, err := known.claims(ctx, id, token)
	if err != nil {
		return Caller{}, err
	}
	groups := known.dialect.groups(claims)
	if len(o.cfg.Groups) > 0 && !slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(o.cfg.Groups, g) }) {
		return Caller{}, fmt.Errorf("%w: the user is in none of the accepted groups", ErrUnauthenticated)
	}
	if o.cfg.Owners != nil {
		if err := o.cfg.Owners.BindOwner(ctx, id.Subject, iss.url); err != nil {
			if errors.Is(err, ErrUnauthenticated) {
				o.cfg.Logger.Warn("a user is not let in", "issuer", iss.url, "error", err)
			}
			return Caller{}, err
		}
	}
	return Caller{Subject: id.Subject, user: &user{issuer: iss.url, name: nameOf(claims), groups: groups, token: token, expiry: id.Expiry, client: clientOf(id)}}, nil
}

// clientOf is whom a token was issued to. What is not a name is none: it goes into
// requests to the issuer.
func clientOf(id *oidc.IDToken) string {
	var claims struct {
		Party  string `json:"azp"`
		Client string `json:"client_id"`
	}
	if id.Claims(&claims) != nil {
		return ""
	}
	client := cmp.Or(claims.Party, claims.Client)
	if len(client) > maxClient || strings.ContainsFunc(client, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return client
}

// maxClient bounds a client's name in bytes.
const maxClient = 255

// maxSubject bounds a sub in bytes (OpenID Connect Core 2: 255 ASCII characters).
const maxSubject = 255

// bearer finds the token of a request. Tokens in the URL are none: they would end
// up in logs.
func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

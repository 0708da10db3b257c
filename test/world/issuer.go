package world

import (
	"context"
	"net/http"
	"net/http/httptest"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

// Group is the group whose users the API and every OSCAR let in.
const Group = "physics"

// Issuer is an OpenID provider: a simulated one of package issuer, or a real one of
// package openid.
type Issuer interface {
	// Issuer is its URL, as it stands in its tokens' iss.
	Issuer() string
	// User sets the claims that userinfo tells of a user.
	User(subject string, claims map[string]any)
	// Token is an access token of a user; claims replace those of the issuer, if it
	// lets a test choose.
	Token(subject string, claims map[string]any) string
	// Check says whose a token is: claims of userinfo, when it is good.
	Check(ctx context.Context, token string) (subject string, claims map[string]any, err error)
}

// AddUser makes a user of the world's issuer, in Group and further groups.
func (w *World) AddUser(subject string, groups ...string) {
	w.opts.Issuer.User(subject, map[string]any{"group_membership": append([]string{Group}, groups...), "name": "User of the Tests"})
}

// Token is an access token of a user; claims replace those of the issuer.
func (w *World) Token(subject string, claims map[string]any) string {
	w.T.Helper()
	return w.opts.Issuer.Token(subject, claims)
}

// WithToken is a client with an access token.
func (w *World) WithToken(token string) *client.Client {
	w.T.Helper()
	return Must(client.New(client.Config{Endpoint: w.API, Token: token, Transport: w.transport}))(w.T)
}

// authenticator checks access tokens for an API, and knows the issuer when it is returned, unless
// that may be away.
func (w *World) authenticator(cp *controlplane.ControlPlane) identity.Authenticator {
	w.T.Helper()
	oidc := Must(identity.NewOIDC(identity.OIDCConfig{
		Issuers: []string{w.opts.Issuer.Issuer()}, Groups: []string{Group}, Owners: cp.Federations, Transport: NewLink(w.at(w.instance(cp).host)).transport(), Logger: w.Log.Logger(),
	}))(w.T)
	background(w.ctx, w.T, oidc.Run)
	if w.opts.IssuerAway {
		return oidc
	}
	w.AddUser("first-to-come")
	r := httptest.NewRequest(http.MethodGet, "/system/info", nil)
	r.Header.Set("Authorization", "Bearer "+w.Token("first-to-come", nil))
	w.Eventually("the issuer is known", func() bool {
		_, err := oidc.Authenticate(r)
		return err == nil
	})
	return oidc
}

// user is how an OSCAR knows the user of an access token.
func (w *World) user(ctx context.Context, token string) (oscarsim.User, error) {
	subject, claims, err := w.opts.Issuer.Check(ctx, token)
	user := oscarsim.User{Subject: subject}
	user.Name, _ = claims["name"].(string)
	groups, _ := claims["group_membership"].([]any)
	for _, group := range groups {
		if name, ok := group.(string); ok {
			user.Groups = append(user.Groups, name)
		}
	}
	return user, err
}

package boot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/internal/oidcsim"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

// The group that the users of a development federation are in, and the client that they log in with.
const (
	devGroup  = "users"
	devClient = "oscarfed"
)

// DevUser can log in at the OpenID provider.
type DevUser struct {
	Subject  string `json:"subject"`
	Password string `json:"password"`
}

// devOpenID is the OpenID provider of a development federation.
type devOpenID struct {
	listener net.Listener
	provider *oidcsim.Provider
	users    []DevUser
	log      *slog.Logger
}

// listenOpenID makes a provider with two users, on loopback alone: it would let in its users from
// everywhere.
func listenOpenID(ctx context.Context, address string, log *slog.Logger) (*devOpenID, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the OpenID provider: %w", err)
	}
	if server.Exposed(l.Addr()) {
		return nil, errors.Join(errors.New("the OpenID provider listens on loopback only"), l.Close())
	}
	p, err := oidcsim.New("http://" + l.Addr().String())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	p.Grant(oidcsim.Grants{ClientID: devClient, Rotate: true})
	d := &devOpenID{listener: l, provider: p, log: log}
	for _, subject := range []string{"alice", "bob"} {
		u := DevUser{Subject: subject, Password: rand.Text()}
		p.User(subject, map[string]any{"name": subject, "group_membership": []string{devGroup}})
		p.Password(subject, u.Password)
		d.users = append(d.users, u)
	}
	return d, nil
}

// serve answers until ctx ends.
func (d *devOpenID) serve(ctx context.Context) error {
	return server.Serve(ctx, server.ServeConfig{Listen: d.listener, Handler: d.provider, Logger: d.log, Drain: time.Second})
}

// authenticator lets the provider's users into the control plane.
func (d *devOpenID) authenticator(owners identity.Owners, log *slog.Logger) (*identity.OIDC, error) {
	return identity.NewOIDC(identity.OIDCConfig{
		Issuers: []string{d.provider.URL}, Audiences: []string{"oscar"}, Groups: []string{devGroup}, Owners: owners, Logger: log,
	})
}

// login is what those who want to log in are told.
func (d *devOpenID) login() []v1.LoginIssuer {
	return []v1.LoginIssuer{{Issuer: d.provider.URL, ClientID: devClient}}
}

// source lets the users into the simulated OSCARs; none without a provider.
func (d *devOpenID) source() oscarsim.UserSource {
	if d == nil {
		return nil
	}
	return func(ctx context.Context, token string) (oscarsim.User, error) {
		subject, claims, err := d.provider.Check(ctx, token)
		if err != nil {
			return oscarsim.User{}, err
		}
		name, _ := claims["name"].(string)
		return oscarsim.User{Subject: subject, Name: name, Groups: []string{devGroup}}, nil
	}
}

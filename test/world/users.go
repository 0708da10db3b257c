package world

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
)

// certificateLife is longer than any test.
const certificateLife = time.Hour

// users are those of a guarded etcd, and the authority that signs for them.
type users struct {
	t         testing.TB
	authority *pki.Authority
	dir       string
}

func newUsers(t testing.TB) *users {
	t.Helper()
	u := &users{t: t, dir: t.TempDir()}
	u.authority = Must(pki.LoadOrCreate(u.dir, "test authority", time.Now))(t)
	Must(u.authority.Server(pki.ServerConfig{
		File: u.file("server.pem"), Hosts: []string{"127.0.0.1"}, Life: certificateLife, Logger: slog.New(slog.DiscardHandler),
	}))(t)
	return u
}

func (u *users) file(name string) string { return filepath.Join(u.dir, name) }

// enter makes an etcd demand certificates.
func (u *users) enter(cfg *embedded.Config) {
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = u.file("server.pem"), u.file("server.pem"), u.file(pki.AuthorityCertFile)
	cfg.Guarded, cfg.Trusted = true, []string{access.ControlPlane}
}

// certify gives a connection the certificate of a user; without users none.
func (u *users) certify(cfg *store.Config, user string) {
	if u != nil {
		cfg.CAFile, cfg.Certificate = u.file(pki.AuthorityCertFile), u.authority.Client(user, certificateLife).Certificate
	}
}

// access changes users as root, with a connection for each time.
func (u *users) access(asRoot store.Config) *clusters.EtcdAccess {
	asRoot.Logger = slog.New(slog.DiscardHandler)
	return &clusters.EtcdAccess{
		Authority: u.authority, Etcd: Must(pki.NewRoots(u.authority.CertPEM()))(u.t), Endpoints: asRoot.Endpoints,
		Admin: func(ctx context.Context) (*access.Admin, func(), error) {
			root, err := store.Open(ctx, asRoot)
			if err != nil {
				return nil, nil, err
			}
			return access.New(root), func() { _ = root.Close() }, nil
		},
	}
}

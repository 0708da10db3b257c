package clusters

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store/access"
)

// Access gives clusters their users in etcd and signs their certificates. A user belongs to
// one registration: another registration under the same id is another user.
type Access interface {
	// Admit gives a cluster its user and its rights. It may be repeated.
	Admit(ctx context.Context, cluster, uid string) error
	// Revoke takes both away. It may be repeated.
	Revoke(ctx context.Context, cluster, uid string) error
	// Sign makes a client certificate for a cluster's user: PEM, and when it ends.
	Sign(key crypto.PublicKey, cluster, uid string) (certPEM []byte, notAfter time.Time, err error)
	// Trust is what a syncer needs besides: the authorities of etcd's own
	// certificates in PEM, empty for those of the system, and its client URLs.
	Trust() (etcdCA []byte, endpoints []string)
}

// ClientLife is how long the certificate of a cluster is valid: nothing but the loss
// of its rights ends it before.
const ClientLife = 24 * time.Hour

// EtcdAccess is Access over etcd's users and an authority that etcd trusts for its
// clients.
type EtcdAccess struct {
	// Admin is called for each change of users; the function that it returns gives
	// up what it opened.
	Admin func(ctx context.Context) (*access.Admin, func(), error)
	// Authority signs the clients' certificates.
	Authority *pki.Authority
	// Etcd has the authorities that Trust returns; nil for the system's.
	Etcd      *pki.Roots
	Endpoints []string
	// Life of a certificate; 0 means ClientLife.
	Life time.Duration
}

// Admit implements Access.
func (a *EtcdAccess) Admit(ctx context.Context, cluster, uid string) error {
	return a.with(ctx, func(admin *access.Admin) error { return admin.Admit(ctx, cluster, uid) })
}

// Revoke implements Access.
func (a *EtcdAccess) Revoke(ctx context.Context, cluster, uid string) error {
	return a.with(ctx, func(admin *access.Admin) error { return admin.Revoke(ctx, cluster, uid) })
}

// KeepUsers implements Users.
func (a *EtcdAccess) KeepUsers(ctx context.Context, want func(context.Context) (access.Wanted, error)) error {
	return a.with(ctx, func(admin *access.Admin) error { return admin.Keep(ctx, want) })
}

func (a *EtcdAccess) with(ctx context.Context, do func(*access.Admin) error) error {
	admin, done, err := a.Admin(ctx)
	if err != nil {
		return fmt.Errorf("etcd as its administrator: %w", err)
	}
	defer done()
	return do(admin)
}

// Sign implements Access.
func (a *EtcdAccess) Sign(key crypto.PublicKey, cluster, uid string) ([]byte, time.Time, error) {
	life := a.Life
	if life == 0 {
		life = ClientLife
	}
	certPEM, err := a.Authority.Sign(key, pki.Subject{Name: access.Syncer(cluster, uid), Life: life})
	if err != nil {
		return nil, time.Time{}, err
	}
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return nil, time.Time{}, errors.New("the certificate that was signed is not PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("the certificate that was signed: %w", err)
	}
	return certPEM, cert.NotAfter, nil
}

// Trust implements Access.
func (a *EtcdAccess) Trust() ([]byte, []string) { return a.Etcd.PEM(), a.Endpoints }

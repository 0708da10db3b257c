package ownertoken

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/token"
)

// kubeVault keeps refresh tokens in Kubernetes.
type kubeVault struct {
	secrets kube.TokenStore
	now     func() time.Time
}

// NewKubeVault keeps refresh tokens in Secrets.
func NewKubeVault(secrets kube.TokenStore, now func() time.Time) token.Vault {
	return kubeVault{secrets, now}
}

// Get implements token.Vault.
func (v kubeVault) Get(ctx context.Context, owner, federation string) (*token.Stored, error) {
	t, err := v.secrets.Token(ctx, owner, federation)
	if err != nil {
		return nil, vaultError(err)
	}
	return &token.Stored{
		Version: t.Serial, Serial: t.Given, Refresh: t.Refresh, Issuer: t.Issuer, ClientID: t.ClientID,
		GivenAt: t.IssuedAt, RenewedAt: t.RenewedAt, BegunBy: t.BegunBy, BegunAt: t.BegunAt,
	}, nil
}

// Put implements token.Vault.
func (v kubeVault) Put(ctx context.Context, owner, federation string, k *token.Stored) error {
	return vaultError(v.secrets.PutToken(ctx, owner, federation, kube.Token{
		Refresh: k.Refresh, Issuer: k.Issuer, ClientID: k.ClientID, IssuedAt: k.GivenAt, StoredAt: v.now(), Serial: k.Version,
		Given: k.Serial, RenewedAt: k.RenewedAt, BegunBy: k.BegunBy, BegunAt: k.BegunAt,
	}))
}

// Delete implements token.Vault.
func (v kubeVault) Delete(ctx context.Context, owner, federation string, version int64) error {
	return vaultError(v.secrets.DeleteToken(ctx, owner, federation, version))
}

// vaultError says in the words of a vault what Kubernetes answers.
func vaultError(err error) error {
	for said, means := range map[error]error{
		kube.ErrNoToken: token.ErrNone, kube.ErrTokenChanged: token.ErrChanged, kube.ErrAbsent: token.ErrNoVault,
		kube.ErrTokenDamaged: token.ErrDamaged, kube.ErrTokenNewer: token.ErrNewer,
	} {
		if errors.Is(err, said) {
			return fmt.Errorf("%w: %w", means, err)
		}
	}
	return err
}

package ownertoken

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
	"github.com/oscarfed/oscarfed/syncer/token"
)

// ErrNoSession says that this process has no session, without which no token is used.
var ErrNoSession = errors.New("the syncer has no session in etcd, and asks nobody for tokens")

// Process is what outlives a session: the keeper of refresh tokens, and which session is
// the present one.
type Process struct {
	cluster *session.Cluster
	keeper  *token.Keeper
	issuers *token.Issuers
	// current is nil between two sessions.
	current atomic.Pointer[Tokens]
}

// NewProcess keeps refresh tokens in vault, and exchanges them at issuers.
func NewProcess(cluster *session.Cluster, vault token.Vault, issuers *token.Issuers) *Process {
	p := &Process{cluster: cluster, issuers: issuers}
	p.keeper = token.NewKeeper(token.Config{
		Vault: vault, Issuers: issuers, Instance: cluster.Instance, Report: p.reportReading, Now: cluster.Now, Logger: cluster.Log,
	})
	return p
}

// Begin makes t the tokens of the present session, until end.
func (p *Process) Begin(t *Tokens) (end func()) {
	p.current.Store(t)
	return func() { p.current.Store(nil) }
}

// Close waits, until ctx ends, until what an issuer gave last is stored.
func (p *Process) Close(ctx context.Context) {
	p.keeper.Close(ctx)
	p.issuers.Close()
}

// Await waits for an access token of a service's owner, in the present session.
func (p *Process) Await(ctx context.Context, d *record.Desired) (AccessToken, error) {
	t := p.current.Load()
	if t == nil {
		return AccessToken{}, ErrNoSession
	}
	return t.await(ctx, d)
}

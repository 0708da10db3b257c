package token

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Errors of a Vault. Any other error is temporary, and the write may have happened.
var (
	// ErrNone says that no token is kept for a federation.
	ErrNone = errors.New("no refresh token is kept")
	// ErrChanged says that another version is kept than the one that was to be
	// replaced: read it again, and use nothing of what was read before.
	ErrChanged = errors.New("the kept refresh token was changed meanwhile")
	// ErrDamaged says that what is kept is no token any more, and ErrNewer that only a later
	// version of the syncer can read it.
	ErrDamaged = errors.New("the kept refresh token cannot be read")
	ErrNewer   = errors.New("the kept refresh token is of a newer version")
	// ErrNoVault says that there is no safe place for tokens: in files of a pod, anyone with access
	// to the pod could read them.
	ErrNoVault = errors.New("this syncer has no place to keep refresh tokens: it needs Kubernetes")
)

// Stored is a refresh token in a Vault.
type Stored struct {
	// Version counts the writes of the federation's token, from 1.
	Version int64
	// Serial is that of the token as its owner gave it; those that the issuer gave
	// in its place since have the same.
	Serial  int64
	Refresh string
	// Issuer and ClientID may be empty: then the only one that is configured counts.
	Issuer, ClientID string
	GivenAt          time.Time
	// RenewedAt is when the issuer gave this one in place of another; zero for the
	// one that the owner gave.
	RenewedAt time.Time
	// BegunBy and BegunAt name the process that began an exchange whose outcome is not stored.
	BegunBy string
	BegunAt time.Time
}

// Vault stores refresh tokens: in a Secret of their owner's namespace. It is safe for concurrent
// use, also by several processes.
type Vault interface {
	// Get reads the token of a federation of an owner; ErrNone when there is none, ErrDamaged or
	// ErrNewer when it cannot be read.
	Get(ctx context.Context, owner, federation string) (*Stored, error)
	// Put writes a token in the place of the one whose version is one less, the first where there
	// is none, or one that cannot be read; else ErrChanged. The same put again succeeds.
	Put(ctx context.Context, owner, federation string, k *Stored) error
	// Delete forgets the token with a version, or with 0 one that is damaged; else ErrChanged.
	// It may be absent.
	Delete(ctx context.Context, owner, federation string, version int64) error
}

// Memory is a Vault in memory: for federations that do not outlive the process, and for tests.
// The zero value is ready.
type Memory struct {
	mu   sync.Mutex
	kept map[[2]string]Stored
}

// Len is how many tokens are kept.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.kept)
}

// Get implements Vault.
func (m *Memory) Get(_ context.Context, owner, federation string) (*Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.kept[[2]string{owner, federation}]
	if !ok {
		return nil, ErrNone
	}
	return &k, nil
}

// Put implements Vault.
func (m *Memory) Put(_ context.Context, owner, federation string, k *Stored) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := [2]string{owner, federation}
	switch before := m.kept[at]; {
	case before == *k:
		return nil
	case before.Version != k.Version-1:
		return ErrChanged
	}
	if m.kept == nil {
		m.kept = map[[2]string]Stored{}
	}
	m.kept[at] = *k
	return nil
}

// Delete implements Vault.
func (m *Memory) Delete(_ context.Context, owner, federation string, version int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := [2]string{owner, federation}
	before, ok := m.kept[at]
	if ok && before.Version != version {
		return ErrChanged
	}
	delete(m.kept, at)
	return nil
}

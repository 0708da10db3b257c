package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// TokenSecret is the Secret of each user's namespace in which the syncer keeps
// refresh tokens, one key per federation. Its name is the same everywhere, so that a
// role can allow the syncer this one Secret and no other; and it is longer than the
// 39 characters of a service's name, so that no service can have it mounted.
const TokenSecret = "oscarfed-refresh-tokens-kept-by-the-syncer"

// Limits of what is kept, in bytes. Kubernetes takes 1 MiB for a Secret. maxSecret is for the token of
// another federation: the rest is for the marks and the renewals of those that are there.
const (
	maxToken  = 16 << 10
	maxSecret = 900 << 10
)

// tokenVersion is that of the JSON of a kept token.
const tokenVersion = 1

// What a TokenStore answers beside ErrAbsent and ErrDenied.
var (
	// ErrNoToken says that nothing is kept for a federation.
	ErrNoToken = errors.New("no refresh token is kept")
	// ErrTokenChanged says that another token is kept than the one that was to be
	// replaced or deleted: read it again, and never use the earlier one.
	ErrTokenChanged = errors.New("the kept refresh token was replaced meanwhile")
	// ErrTokenDamaged says that what is kept for a federation is no token: it was changed by hand.
	ErrTokenDamaged = errors.New("what is kept as the refresh token cannot be read; give a new token")
	// ErrTokenNewer says that a later version of the syncer has kept it, in a form of its own.
	ErrTokenNewer = errors.New("the refresh token was kept by a newer version of the syncer; give a new token, or upgrade")
	// ErrNoNamespace says that the owner has no namespace yet: OSCAR makes it when he
	// first comes.
	ErrNoNamespace = errors.New("the owner has no namespace on this cluster yet")
	// ErrForeignSecret says that a Secret of our name stands there which we did not make.
	ErrForeignSecret = errors.New("a Secret " + TokenSecret + " that is not the syncer's stands in the owner's namespace; delete it there")
)

// Token is a refresh token and what belongs to it.
type Token struct {
	// Refresh is the token itself, 1 to 16384 bytes.
	Refresh  string
	Issuer   string
	ClientID string
	// IssuedAt is when the issuer gave it, and StoredAt when it was put here.
	IssuedAt, StoredAt time.Time
	// Serial counts the tokens of the federation that were kept here, from 1, and the
	// marks that were set on them.
	Serial int64
	// Given is the order that the owner's own token came with; those that its issuer
	// gave in its place since have the same. RenewedAt is when the last of them came.
	Given     int64
	RenewedAt time.Time
	// BegunBy and BegunAt mark a token that is being exchanged.
	BegunBy string
	BegunAt time.Time
}

// same says whether two are the same write; StoredAt does not count.
func (t Token) same(o Token) bool {
	return t.Refresh == o.Refresh && t.Issuer == o.Issuer && t.ClientID == o.ClientID && t.Serial == o.Serial && t.Given == o.Given &&
		t.BegunBy == o.BegunBy && t.IssuedAt.Equal(o.IssuedAt) && t.RenewedAt.Equal(o.RenewedAt) && t.BegunAt.Equal(o.BegunAt)
}

// TokenStore keeps one refresh token per federation in a Secret of its owner's
// namespace. Two syncers that work on one federation never lose a rotation: a token is
// put in the place of the one with the serial before, or not at all.
type TokenStore interface {
	// Token reads what is kept for a federation of an owner: ErrNoToken when there is
	// none, ErrTokenDamaged or ErrTokenNewer when it cannot be read.
	Token(ctx context.Context, owner, federation string) (*Token, error)
	// PutToken keeps a token in the place of the one whose serial is one less; one with serial 1
	// where there is none, or one that cannot be read. Otherwise: ErrTokenChanged. The same put
	// again succeeds. After any other error it may have been done: put it again.
	PutToken(ctx context.Context, owner, federation string, token Token) error
	// DeleteToken forgets the token with a serial, or, with serial 0, one that is damaged.
	// It may be absent.
	DeleteToken(ctx context.Context, owner, federation string, serial int64) error
}

// keptToken is the JSON of a token in its Secret.
type keptToken struct {
	V        int       `json:"v"`
	Refresh  string    `json:"refresh_token"`
	Issuer   string    `json:"issuer"`
	ClientID string    `json:"client_id"`
	IssuedAt time.Time `json:"issued_at"`
	StoredAt time.Time `json:"stored_at"`
	Serial   int64     `json:"serial"`

	Given     int64     `json:"given,omitempty"`
	RenewedAt time.Time `json:"renewed_at,omitzero"`
	BegunBy   string    `json:"begun_by,omitempty"`
	BegunAt   time.Time `json:"begun_at,omitzero"`
}

// Token implements TokenStore.
func (c *Client) Token(ctx context.Context, owner, federation string) (*Token, error) {
	ctx, cancel := c.call(ctx)
	defer cancel()
	s, err := c.kube.CoreV1().Secrets(Namespace(c.cfg.Services, owner)).Get(ctx, TokenSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, ErrNoToken
	}
	if err != nil {
		return nil, failed("Secret of refresh tokens", err)
	}
	if err := checkSecret(s); err != nil {
		return nil, err
	}
	return tokenIn(s.Data, federation)
}

// PutToken implements TokenStore.
func (c *Client) PutToken(ctx context.Context, owner, federation string, token Token) error {
	if n := len(token.Refresh); n == 0 || n > maxToken {
		return fmt.Errorf("a refresh token has 1 to %d bytes; this one has %d", maxToken, n)
	}
	if token.Serial < 1 {
		return fmt.Errorf("serial %d: the first token has 1", token.Serial)
	}
	if problems := validation.IsConfigMapKey(federation); len(problems) > 0 {
		return fmt.Errorf("federation %q cannot name a token: %s", federation, problems[0])
	}
	data, err := json.Marshal(keptToken{V: tokenVersion, Refresh: token.Refresh, Issuer: token.Issuer, ClientID: token.ClientID,
		IssuedAt: token.IssuedAt.UTC(), StoredAt: token.StoredAt.UTC(), Serial: token.Serial,
		Given: token.Given, RenewedAt: token.RenewedAt.UTC(), BegunBy: token.BegunBy, BegunAt: token.BegunAt.UTC()})
	if err != nil {
		return fmt.Errorf("refresh token: %w", err)
	}
	return c.changeTokens(ctx, owner, func(kept map[string][]byte) (bool, error) {
		before, err := tokenIn(kept, federation)
		switch {
		case errors.Is(err, ErrNoToken), unreadable(err) && token.Serial == 1:
			before = &Token{}
		case err != nil:
			return false, err
		case before.same(token):
			return false, nil // it was done, and the answer was lost
		}
		if before.Serial != token.Serial-1 {
			return false, fmt.Errorf("%w: serial %d is kept, and %d was to follow it", ErrTokenChanged, before.Serial, token.Serial)
		}
		kept[federation] = data
		return true, nil
	})
}

// DeleteToken implements TokenStore.
func (c *Client) DeleteToken(ctx context.Context, owner, federation string, serial int64) error {
	return c.changeTokens(ctx, owner, func(kept map[string][]byte) (bool, error) {
		before, err := tokenIn(kept, federation)
		switch {
		case errors.Is(err, ErrNoToken):
			return false, nil
		case errors.Is(err, ErrTokenDamaged) && serial == 0:
		case err != nil:
			return false, err
		case before.Serial != serial:
			return false, fmt.Errorf("%w: serial %d is kept, and %d was to be deleted", ErrTokenChanged, before.Serial, serial)
		}
		delete(kept, federation)
		return true, nil
	})
}

// unreadable says that something is kept, and that this version cannot read it.
func unreadable(err error) bool {
	return errors.Is(err, ErrTokenDamaged) || errors.Is(err, ErrTokenNewer)
}

// tokenIn reads the token of a federation: ErrNoToken when there is none.
func tokenIn(data map[string][]byte, federation string) (*Token, error) {
	raw, ok := data[federation]
	if !ok {
		return nil, ErrNoToken
	}
	var k keptToken
	switch err := json.Unmarshal(raw, &k); {
	case k.V > tokenVersion: // its fields may be other ones
		return nil, fmt.Errorf("federation %s: %w", federation, ErrTokenNewer)
	case err != nil || k.V != tokenVersion || k.Refresh == "" || k.Serial < 1:
		// The error of the decoder may quote the token.
		return nil, fmt.Errorf("federation %s: %w", federation, ErrTokenDamaged)
	}
	return &Token{Refresh: k.Refresh, Issuer: k.Issuer, ClientID: k.ClientID, IssuedAt: k.IssuedAt, StoredAt: k.StoredAt, Serial: k.Serial,
		Given: k.Given, RenewedAt: k.RenewedAt, BegunBy: k.BegunBy, BegunAt: k.BegunAt}, nil
}

// checkSecret refuses a Secret that we did not make.
func checkSecret(s *corev1.Secret) error {
	if s.Labels[managedByLabel] != ours || s.Type != corev1.SecretTypeOpaque {
		return ErrForeignSecret
	}
	return nil
}

// changeTokens changes the Secret by compare-and-swap, since users whose names begin
// alike share a namespace. change says whether anything is to be written. An empty
// Secret is deleted.
func (c *Client) changeTokens(ctx context.Context, owner string, change func(kept map[string][]byte) (bool, error)) error {
	ctx, cancel := c.call(ctx)
	defer cancel()
	namespace := Namespace(c.cfg.Services, owner)
	// One change at a time in this process, so that only another process can cause a conflict.
	select {
	case c.changing <- struct{}{}:
		defer func() { <-c.changing }()
	case <-ctx.Done():
		return failed("Secret of refresh tokens", context.Cause(ctx))
	}
	for {
		err := c.changeOnce(ctx, namespace, change)
		if !errors.Is(err, errConflict) {
			return err
		}
		select {
		case <-time.After(rand.N(maxConflictPause)): //nolint:gosec // spreads load
		case <-ctx.Done():
			return err
		}
	}
}

// maxConflictPause is the longest pause before a change is tried again after a conflict.
const maxConflictPause = 50 * time.Millisecond

// errConflict says that another process changed the Secret first.
var errConflict = errors.New("another process changed the Secret of refresh tokens")

func (c *Client) changeOnce(ctx context.Context, namespace string, change func(kept map[string][]byte) (bool, error)) error {
	const what = "Secret of refresh tokens"
	secrets := c.kube.CoreV1().Secrets(namespace)
	s, err := secrets.Get(ctx, TokenSecret, metav1.GetOptions{})
	absent := apierrors.IsNotFound(err)
	switch {
	case absent:
		s = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: TokenSecret, Labels: map[string]string{managedByLabel: ours}},
			Type:       corev1.SecretTypeOpaque,
		}
	case err != nil:
		return failed(what, err)
	default:
		if err := checkSecret(s); err != nil {
			return err
		}
	}
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	before := len(s.Data)
	if write, err := change(s.Data); err != nil || !write {
		return err
	}
	size := 0
	for name, data := range s.Data {
		size += len(name) + len(data)
	}
	if len(s.Data) > before && size > maxSecret {
		return fmt.Errorf("refresh tokens of namespace %s would have %d bytes; %d is the most", namespace, size, maxSecret)
	}
	switch {
	case absent:
		_, err = secrets.Create(ctx, s, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return ErrNoNamespace
		}
	case len(s.Data) == 0:
		err = secrets.Delete(ctx, TokenSecret, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion},
		})
	default:
		_, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
	}
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w", errConflict, err)
	}
	return failed(what, err)
}

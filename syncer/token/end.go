package token

import (
	"context"
	"errors"
)

// ErrLater says that the stored token was given after the order to delete one.
var ErrLater = errors.New("a refresh token is kept that was given after that order")

// Forget deletes the token of a federation if it was given before an order of that serial. A
// token that is not there is no error. One that is damaged is deleted, whenever it was given; one of
// a newer version stays. After an error nothing was deleted, and the caller tries again unless it is
// ErrLater. Access tokens that were given are valid until they expire; this process gives no more of
// them.
func (k *Keeper) Forget(ctx context.Context, of Key, serial int64) error {
	_, err := exclusively(ctx, k, of, func(ctx context.Context) (struct{}, error) {
		kept, err := k.givenBefore(ctx, of, serial)
		if errors.Is(err, ErrNone) {
			return struct{}{}, nil
		}
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, k.remove(ctx, of, kept)
	})
	return err
}

// Revocation is what came of a revocation.
type Revocation struct {
	// Revoked says that the issuer has confirmed it; Message why it has not, and that
	// it will not.
	Revoked bool
	Message string
}

// Revoke revokes the token at its issuer, if that can be done, calls note with the outcome, and
// then does what Forget does. Without the token the outcome cannot be found out any more, so the
// token is deleted only after note has succeeded. When there is no token the error is ErrNone:
// it may have been revoked, noted and deleted earlier.
func (k *Keeper) Revoke(ctx context.Context, of Key, serial int64, note func(context.Context, Revocation) error) (Revocation, error) {
	return exclusively(ctx, k, of, func(ctx context.Context) (Revocation, error) {
		kept, err := k.givenBefore(ctx, of, serial)
		if err != nil {
			return Revocation{}, err
		}
		out, err := k.revoke(ctx, of, kept)
		if err != nil {
			return Revocation{}, err
		}
		if err := note(ctx, out); err != nil {
			return Revocation{}, err
		}
		return out, k.remove(ctx, of, kept)
	})
}

// givenBefore is the token that was given before an order of a serial, empty where it is damaged;
// ErrNone also where none could be stored.
func (k *Keeper) givenBefore(ctx context.Context, of Key, serial int64) (*Stored, error) {
	kept, err := k.get(ctx, of)
	switch {
	case errors.Is(err, ErrNone), errors.Is(err, ErrNoVault):
		k.forget(of)
		return nil, ErrNone
	case errors.Is(err, ErrDamaged):
		return &Stored{}, nil
	case err != nil:
		return nil, err
	case kept.Serial > serial:
		return nil, ErrLater
	}
	return kept, nil
}

// remove deletes a token and its entry.
func (k *Keeper) remove(ctx context.Context, of Key, kept *Stored) error {
	if err := k.delete(ctx, of, kept.Version); err != nil {
		return err
	}
	k.forget(of)
	return nil
}

func (k *Keeper) revoke(ctx context.Context, of Key, kept *Stored) (Revocation, error) {
	if kept.Refresh == "" {
		return Revocation{Message: "it could not be revoked, because it could not be read where it was kept: revoke it at the issuer by hand"}, nil
	}
	if err := k.cfg.Issuers.Silent(kept); err != nil {
		return Revocation{}, err
	}
	done, err := k.cfg.Report(ctx, Reading{Key: of, Serial: kept.Serial, Revoke: true})
	if err != nil {
		return Revocation{}, err
	}
	revoked, err := k.cfg.Issuers.Revoke(ctx, kept)
	conf, isConfig := errors.AsType[*ConfigError](err)
	switch {
	case err == nil && revoked:
		done("revoked")
		return Revocation{Revoked: true}, nil
	case err == nil:
		done("not revoked: the issuer has no endpoint for it")
		return Revocation{Message: "its issuer has no endpoint to revoke it at: revoke it at the issuer by hand"}, nil
	case isConfig:
		// Trying again would not help: the token is deleted all the same.
		done("not revoked: " + conf.Message)
		return Revocation{Message: conf.Message + ": revoke it at the issuer by hand"}, nil
	}
	done("not revoked: " + err.Error())
	return Revocation{}, err
}

func (k *Keeper) forget(of Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.entry(of)
	*h = entry{busy: h.busy}
}

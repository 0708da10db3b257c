package token

import (
	"context"
	"errors"
)

// ErrLater says that the token which is kept was given after the order to drop one.
var ErrLater = errors.New("a refresh token is kept that was given after that order")

// Forget deletes the token of a federation if it was given before an order of that
// serial. That there is none is no error. After one nothing was deleted, and it has to
// be tried again unless it is ErrLater. Access tokens that were given are good until
// they expire; this process gives none any more.
func (k *Keeper) Forget(ctx context.Context, of Of, serial int64) error {
	_, err := alone(ctx, k, of, func(ctx context.Context) (struct{}, error) {
		kept, err := k.before(ctx, of, serial)
		if errors.Is(err, ErrNone) {
			return struct{}{}, nil
		}
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, k.end(ctx, of, kept)
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

// Revoke is Forget after the token was revoked at its issuer, if that can be done. note
// is called between the two: once the token is deleted, the outcome of its revocation cannot
// be learned any more, so it is not deleted before note has succeeded. When
// there is no token the error is ErrNone: one that was revoked and noted earlier may
// be gone since.
func (k *Keeper) Revoke(ctx context.Context, of Of, serial int64, note func(context.Context, Revocation) error) (Revocation, error) {
	return alone(ctx, k, of, func(ctx context.Context) (Revocation, error) {
		kept, err := k.before(ctx, of, serial)
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
		return out, k.end(ctx, of, kept)
	})
}

// before is the token that was given before an order of a serial; ErrNone also where
// none could be kept.
func (k *Keeper) before(ctx context.Context, of Of, serial int64) (*Kept, error) {
	kept, err := k.get(ctx, of)
	switch {
	case errors.Is(err, ErrNone), errors.Is(err, ErrNoVault):
		k.forget(of)
		return nil, ErrNone
	case err != nil:
		return nil, err
	case kept.Serial > serial:
		return nil, ErrLater
	}
	return kept, nil
}

// end deletes a token, and what is known of it.
func (k *Keeper) end(ctx context.Context, of Of, kept *Kept) error {
	if err := k.delete(ctx, of, kept.Version); err != nil {
		return err
	}
	k.forget(of)
	return nil
}

func (k *Keeper) revoke(ctx context.Context, of Of, kept *Kept) (Revocation, error) {
	done, err := k.cfg.Report(ctx, Reading{Of: of, Serial: kept.Serial, Revoke: true})
	if err != nil {
		return Revocation{}, err
	}
	revoked, err := k.cfg.Issuers.Revoke(ctx, kept)
	conf, misfit := errors.AsType[*ConfigError](err)
	switch {
	case err == nil && revoked:
		done("revoked")
		return Revocation{Revoked: true}, nil
	case err == nil:
		done("not revoked: the issuer has no endpoint for it")
		return Revocation{Message: "its issuer has no endpoint to revoke it at: revoke it at the issuer by hand"}, nil
	case misfit:
		// Nothing that passes: it is deleted all the same.
		done("not revoked: " + conf.Message)
		return Revocation{Message: conf.Message + ": revoke it at the issuer by hand"}, nil
	}
	done("not revoked: " + err.Error())
	return Revocation{}, err
}

func (k *Keeper) forget(of Of) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.of(of)
	*h = holding{busy: h.busy}
}

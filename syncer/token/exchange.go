package token

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oscarfed/oscarfed/internal/openid"
)

// rereads bounds how often one exchange begins again because another holder changed the stored
// token.
const rereads = 4

// exchange uses the stored token once and stores the result. used is the serial of the token.
func (k *Keeper) exchange(ctx context.Context, of Key) (access Access, used int64, err error) {
	for range rereads {
		kept, err := k.get(ctx, of)
		if errors.Is(err, ErrNone) {
			return Access{}, 0, &LostError{Message: "the refresh token is not where it was stored: somebody deleted it there"}
		}
		if err != nil {
			return Access{}, 0, err
		}
		if err := k.respectMark(of, kept); err != nil {
			return Access{}, 0, err
		}
		access, err := k.use(ctx, of, kept)
		if errors.Is(err, ErrChanged) {
			continue
		}
		return access, kept.Serial, err
	}
	return Access{}, 0, errors.New("another holder changes the refresh token all the time")
}

// respectMark respects the mark of another holder, for a while from when it was first seen.
func (k *Keeper) respectMark(of Key, kept *Stored) error {
	if kept.BegunBy == "" || kept.BegunBy == k.cfg.Instance {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h, now := k.entry(of), k.cfg.Now()
	mark := fmt.Sprint(kept.Version, " ", kept.BegunBy)
	if h.mark != mark {
		h.mark, h.seen = mark, now
	}
	if now.Sub(h.seen) < markedFor {
		return fmt.Errorf("another holder has begun an exchange at %s and not told of its outcome yet", kept.BegunAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// use exchanges exactly this version of the token. ErrChanged says that another one is
// kept now, and that this one must not be used any more.
func (k *Keeper) use(ctx context.Context, of Key, kept *Stored) (Access, error) {
	if err := k.cfg.Issuers.Silent(kept); err != nil {
		return Access{}, err // neither marked nor reported as read
	}
	done, err := k.cfg.Report(ctx, Reading{Key: of, Serial: kept.Serial})
	if err != nil {
		return Access{}, err
	}
	marked := *kept
	marked.Version++
	marked.BegunBy, marked.BegunAt = k.cfg.Instance, k.cfg.Now().UTC().Truncate(time.Second)
	if err := k.put(ctx, of, &marked); err != nil {
		done("not used: " + err.Error())
		return Access{}, err
	}
	access, err := k.cfg.Issuers.Exchange(ctx, &marked)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		done("refused: " + refused.Error())
		why := refused.Error()
		if kept.BegunBy != "" {
			why += "; an exchange that was begun at " + kept.BegunAt.UTC().Format(time.RFC3339) +
				" was never finished: what the issuer gave then, instead of this token, was not stored"
		}
		return Access{}, k.lose(ctx, of, &marked, why)
	}
	unusable, isUnusable := errors.AsType[*UnusableError](err)
	if err != nil && !isUnusable {
		done("failed: " + err.Error())
		return Access{}, err
	}
	next := marked
	next.Version++
	next.BegunBy, next.BegunAt = "", time.Time{}
	if access.Refresh != "" {
		next.Refresh, next.RenewedAt = access.Refresh, k.cfg.Now().UTC().Truncate(time.Second)
	}
	access.Refresh, access.RenewedAt = "", next.RenewedAt
	if err := k.store(ctx, of, &next); err != nil {
		done("exchanged, and not stored: " + err.Error())
		return Access{}, err
	}
	if isUnusable {
		done("exchanged: " + unusable.Message)
		return Access{}, unusable
	}
	if subject := openid.Unproven(access.Token).Subject; subject != "" && of.Owner != adminOwner && subject != of.Owner {
		done("exchanged: the access token is of another user")
		return Access{}, k.lose(ctx, of, &next, "the refresh token is of another user than the federation's owner")
	}
	done("exchanged")
	return access, nil
}

// adminOwner owns what the administrator makes: his tokens may be of any user.
const adminOwner = "cluster_admin"

// store writes what the issuer gave, and retries until it is stored: the token that was used may be
// invalid by now. It ends when another holder has stored another token.
func (k *Keeper) store(ctx context.Context, of Key, next *Stored) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = storePause, 5*time.Second
	for {
		err := k.put(ctx, of, next)
		if err == nil || errors.Is(err, ErrChanged) {
			return err
		}
		k.cfg.Logger.Warn("a renewed refresh token is not stored yet; nothing is given out before it is", "federation", of.Federation, "error", err)
		select {
		case <-time.After(wait.NextBackOff()):
		case <-k.closed:
			k.cfg.Logger.Error("stopped before a renewed refresh token was stored; it may be lost", "federation", of.Federation)
			return errClosed
		}
	}
}

// lose deletes a token that the issuer does not accept, unless another one is there by
// now.
func (k *Keeper) lose(ctx context.Context, of Key, used *Stored, why string) error {
	err := k.delete(ctx, of, used.Version)
	if errors.Is(err, ErrChanged) {
		return err
	}
	if err != nil {
		k.cfg.Logger.Warn("a refresh token that is good for nothing is still stored", "federation", of.Federation, "error", err)
	}
	if used.RenewedAt.IsZero() {
		return &LostError{Serial: used.Serial, Message: why}
	}
	return &LostError{Serial: used.Serial, Message: why + "; it was last renewed at " + used.RenewedAt.UTC().Format(time.RFC3339)}
}

package enroll

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oscarfed/oscarfed/internal/clock"
)

// ErrAccessChanged says that etcd has another address or CA, or that the syncer belongs to another
// registration: everything that uses etcd has to start again.
var ErrAccessChanged = errors.New("the syncer's access to etcd has changed")

// A certificate is renewed when this part of its life is over, or a little before, by chance: so
// clusters that joined together do not renew together.
const (
	renewAt     = 2.0 / 3
	renewJitter = 0.04
)

// Outcomes of a renewal, as the metric counts them.
const (
	outcomeRenewed = "renewed"
	outcomeFailed  = "failed"
	outcomeRefused = "refused"
)

// Run renews the certificate in time until ctx ends, or until etcd is to be reached
// anew: ErrAccessChanged. While the control plane is away the present certificate goes on. Ensure
// comes before it; a token that it has put off is tried on.
func (e *Enrolment) Run(ctx context.Context) error {
	early := rand.Float64() * renewJitter //nolint:gosec // it spreads load
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = e.cfg.FirstPause, e.cfg.LastPause
	for {
		had := e.present.Load()
		e.joinLate(ctx, early, pause)
		if had.accessChanged(e.present.Load()) {
			return ErrAccessChanged
		}
		ok, distrust := e.untilDue(ctx, early)
		if !ok {
			return nil
		}
		had = e.present.Load()
		if distrust != nil {
			e.log.Error("this cluster and etcd do not trust each other's certificates; the certificate is renewed now, to learn etcd's authority of today",
				"error", distrust, "endpoints", had.EtcdEndpoints)
			if !clock.Sleep(ctx, rand.N(e.cfg.FirstPause)) { //nolint:gosec // it spreads load: all clusters meet another authority at once
				return nil
			}
		}
		err := e.refresh(ctx)
		e.api.close() // the next one is hours away
		var wait time.Duration
		switch no := (*refusal)(nil); {
		case err == nil:
			e.renewals.WithLabelValues(outcomeRenewed).Inc()
			if had.accessChanged(e.present.Load()) {
				return ErrAccessChanged
			}
			if distrust == nil {
				pause.Reset()
			} else {
				wait = pause.NextBackOff() // the next attempt of etcd's client shows whether it was of use
			}
		case ctx.Err() != nil: // the loop ends
		case errors.As(err, &no):
			e.renewals.WithLabelValues(outcomeRefused).Inc()
			wait = e.cfg.RefusedPause
			e.log.Error("the certificate is not renewed any more", "error", err, "ends", had.cert.Leaf.NotAfter, "pause", wait)
		default:
			e.renewals.WithLabelValues(outcomeFailed).Inc()
			wait = pause.NextBackOff()
			e.log.Warn("the certificate was not renewed yet; the present one goes on", "error", err, "ends", had.cert.Leaf.NotAfter, "pause", wait)
		}
		if !clock.Sleep(ctx, wait) {
			return nil
		}
		select {
		case <-e.distrusted: //nolint:errcheck // it is from before the renewal
		default:
		}
	}
}

// joinLate tries the token that Ensure has put off, until it is answered or ctx ends. A renewal comes
// before it: the certificate must not end because of a token.
func (e *Enrolment) joinLate(ctx context.Context, early float64, pause *backoff.ExponentialBackOff) {
	for e.putOff != "" {
		resting, rested := context.WithTimeout(ctx, pause.NextBackOff())
		due, distrust := e.untilDue(resting, early)
		rested()
		if distrust != nil {
			e.Distrusted(distrust) // the renewal has to know it
		}
		if due || ctx.Err() != nil {
			return
		}
		err := e.joinOnce(ctx, e.putOff)
		e.api.close()
		no, refused := errors.AsType[*refusal](err)
		switch {
		case err == nil:
			pause.Reset()
		case refused:
			e.refused(e.putOff, no)
			e.putOff = ""
			pause.Reset()
		default:
			e.log.Warn("the control plane was not reached to join; it is tried again", "error", err)
		}
	}
}

// refresh renews and, when that is refused, joins with a token that was given since.
func (e *Enrolment) refresh(ctx context.Context) error {
	err := e.renew(ctx)
	if _, no := errors.AsType[*refusal](err); !no {
		return err
	}
	token, unread := e.unusedToken()
	if unread != nil || token == "" {
		return err
	}
	return e.join(ctx, token)
}

// untilDue sleeps until the certificate is to be renewed, and returns why if that is not its age; false
// when ctx has ended. It wakes often to read the clock: a timer does not run while its machine is
// suspended.
func (e *Enrolment) untilDue(ctx context.Context, early float64) (ok bool, distrust error) {
	for {
		now := e.present.Load()
		left := time.Duration(float64(now.life)*(renewAt-early)) - now.age(e.cfg.Now())
		if left <= 0 {
			return ctx.Err() == nil, nil
		}
		timer := time.NewTimer(min(left, e.cfg.Look))
		select {
		case <-timer.C:
		case err := <-e.distrusted:
			timer.Stop()
			return true, err
		case <-ctx.Done():
			timer.Stop()
			return false, nil
		}
	}
}

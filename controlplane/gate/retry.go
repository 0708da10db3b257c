package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store"
)

// maxTries bounds how often a request that lost to another write is tried again. With the
// pauses that takes more than a minute.
const maxTries = 100

// Retries paces the tries of one request that keeps losing to other writes, and ends them.
type Retries struct {
	wait *backoff.ExponentialBackOff
	n    int
}

// NewRetries has made no try yet.
func NewRetries() *Retries {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = 2*time.Millisecond, time.Second, 2
	b.Reset()
	return &Retries{wait: b}
}

// Next waits before another try. Its error ends the request and names the last obstacle.
func (r *Retries) Next(ctx context.Context, cause error) error {
	r.n++
	switch {
	case r.n == 1:
		return nil // what is there now is the newest
	case r.n > maxTries:
		return &fault.Error{Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second, Cause: cause, Message: fmt.Sprintf(
			"nothing was changed: others came before this request %d times; send it again", r.n-1)}
	case !Pause(ctx, r.wait.NextBackOff()):
		return &fault.Error{Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second, Cause: context.Cause(ctx),
			Message: "nothing was changed: others came before this request until its time was over; send it again"}
	}
	return nil
}

// RetryUntilDone calls do until it succeeds or ctx ends, with growing pauses.
func (g *Gate) RetryUntilDone(ctx context.Context, what string, do func() error) {
	_ = g.retry(ctx, what, do)
}

// RetryWhileUnavailable retries while the store is unavailable or the outcome of a write is
// unknown. It returns every other error at once.
func (g *Gate) RetryWhileUnavailable(ctx context.Context, what string, do func() error) error {
	return g.retry(ctx, what, func() error {
		err := do()
		if err == nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
			return err
		}
		return backoff.Permanent(err)
	})
}

func (g *Gate) retry(ctx context.Context, what string, do func() error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier = 50*time.Millisecond, 10*time.Second, 2
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, do() },
		backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, _ time.Duration) {
			g.cfg.Logger.Warn("the store is not settled; it is tried again", "what", what, "error", err)
		}))
	if ctx.Err() != nil {
		return cmp.Or(context.Cause(ctx), ctx.Err())
	}
	return err
}

// Pause waits for d. It returns false when ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

package controlplane

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// maxTries bounds how often a request is tried again since something came before it:
// with the pauses, for more than a minute.
const maxTries = 100

// retries paces the tries of one request that others come before, and ends them.
type retries struct {
	wait *backoff.ExponentialBackOff
	n    int
}

func newRetries() *retries {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = 2*time.Millisecond, time.Second, 2
	b.Reset()
	return &retries{wait: b}
}

// next waits before another try. Its error ends the request, and says what was in its
// way last.
func (r *retries) next(ctx context.Context, cause error) error {
	r.n++
	switch {
	case r.n == 1:
		return nil // what is there now is the newest
	case r.n > maxTries:
		return &Error{Code: CodeUnavailable, RetryAfter: 5 * time.Second, Cause: cause, Message: fmt.Sprintf(
			"nothing was changed: others came before this request %d times; send it again", r.n-1)}
	case !pause(ctx, r.wait.NextBackOff()):
		return &Error{Code: CodeUnavailable, RetryAfter: 5 * time.Second, Cause: context.Cause(ctx),
			Message: "nothing was changed: others came before this request until its time was over; send it again"}
	}
	return nil
}

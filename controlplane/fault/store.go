package fault

import (
	"context"
	"errors"
	"time"

	"github.com/oscarfed/oscarfed/store"
)

// Crossing translates an error of the store. An *Error passes unchanged, unless an earlier try
// of its write may have been applied.
func Crossing(err error) error {
	var own *Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrUnknownOutcome): // whatever else it is
		return &Error{Code: CodeUnknownOutcome, Message: "the write was sent, but whether it was done is not known; send the same request with the same Idempotency-Key again", Cause: err}
	case errors.As(err, &own), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, store.ErrTooLarge):
		return &Error{Code: CodeTooLarge, Message: err.Error(), Cause: err}
	case errors.Is(err, store.ErrFull):
		return &Error{Code: CodeUnavailable, Message: "etcd is full and refuses every write; nothing was changed. Reads go on; space is being made, and GET /health says how it stands", RetryAfter: RetryFull, Cause: err}
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: CodeUnavailable, Message: "etcd does not answer; nothing was changed", RetryAfter: 5 * time.Second, Cause: err}
	}
	return &Error{Code: CodeInternal, Message: "internal error", Cause: err}
}

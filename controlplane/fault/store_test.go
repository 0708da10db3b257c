package fault

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/oscarfed/oscarfed/store"
)

// A request whose first try may have been applied was answered with what ended the
// second, as if nothing had happened; and one that was committed, but not yet seen
// by its own instance at its deadline, with "nothing was changed".
func TestADoubtIsNeverToldAsAFailure(t *testing.T) {
	for _, cause := range []error{
		&Error{Code: CodeAlreadyExists}, &Error{Code: CodeConflict}, store.ErrUnavailable, store.ErrFull, store.ErrTooLarge,
		context.DeadlineExceeded, context.Canceled, errors.New("whatever"),
	} {
		got := Crossing(fmt.Errorf("%w: %w", store.ErrUnknownOutcome, cause))
		if e, ok := errors.AsType[*Error](got); !ok || e.Code != CodeUnknownOutcome {
			t.Errorf("unknown outcome and %v: %v", cause, got)
		}
	}
}

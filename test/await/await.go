package await

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Limit is longer than anything takes that does not hang.
const Limit = 5 * time.Minute

// The pauses between two looks grow from the first to the last one: a look may be dear.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// Until waits until ok is true, and fails the test after Limit.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	// Not the test's context: a wait of a clean-up begins after its end.
	if err := Try(context.Background(), what, func() (bool, error) { return ok(), nil }); err != nil {
		t.Fatal(err)
	}
}

// Try waits until ok is true. It returns early with ok's error, and with the cause
// of ctx's end.
func Try(ctx context.Context, what string, ok func() (bool, error)) error {
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	for pause := firstPause; ; pause = min(pause+pause/8, lastPause) {
		if done, err := ok(); done || err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-limit.C:
			return fmt.Errorf("it never came true within %s: %s", Limit, what)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}

// InVirtualTime runs a test, beside others, on a clock that moves when nothing of it can go on:
// see package synctest. There are no subtests in it.
func InVirtualTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

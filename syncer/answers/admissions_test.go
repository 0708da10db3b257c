package answers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/syncer/manager"
)

// A user ends his plan while OSCAR prepares his namespace: the vote on his creation, which has joined the call, has
// its answer, and the next one needs none.
func TestACallerThatLeavesEndsNoCallOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		a := newAdmissions(t.Context(), time.Now, func(ctx context.Context, _ manager.Bearer) error {
			calls++
			select {
			case <-time.After(10 * time.Second): // of the bubble's clock
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		plan, leave := context.WithCancel(t.Context())
		left, voted := make(chan error, 1), make(chan error, 1)
		go func() { left <- a.Check(plan, "token") }()
		synctest.Wait()
		go func() { voted <- a.Check(t.Context(), "token") }()
		<-time.After(time.Second)
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who left was told %v", err)
		}
		if err := <-voted; err != nil {
			t.Errorf("the vote was told %v", err)
		}
		if err := a.Check(t.Context(), "token"); err != nil || calls != 1 {
			t.Errorf("%v after %d calls", err, calls)
		}
		a.Wait()
	})
}

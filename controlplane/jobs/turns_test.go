package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/internal/share"
	"github.com/oscarfed/oscarfed/internal/worker"
)

// tenantByName is whose a job is that is called account/federation/number.
func tenantByName(job string) share.Tenant {
	part := strings.Split(job, "/")
	out := share.Tenant{Account: part[0], Federation: part[1]}
	if part[0] == "heavy" {
		out.Weights.Account = 2
	}
	return out
}

// Whose jobs are sent next: those of who has the fewest under way.
func TestTurns(t *testing.T) {
	turns := newTurns(tenantByName)
	next := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			got = append(got, turns.Pop())
		}
		if !slices.Equal(got, want) {
			t.Errorf("next are %v, want %v", got, want)
		}
	}
	for _, job := range []string{"ann/f/1", "ann/f/2", "ann/f/3", "bob/g/1", "ann/h/1"} {
		turns.Push(job)
	}
	next("ann/f/1", "bob/g/1", "ann/h/1")
	turns.Push("bob/g/2")
	next("bob/g/2")
	turns.Push("bob/g/3")
	turns.done("bob/g/1")
	turns.done("bob/g/2")
	next("bob/g/3", "ann/f/2")
	if turns.Len() != 1 {
		t.Errorf("%d wait", turns.Len())
	}
	for _, job := range []string{"heavy/i/1", "heavy/i/2", "heavy/i/3", "eve/j/1", "eve/j/2"} {
		turns.Push(job)
	}
	next("heavy/i/1", "eve/j/1", "heavy/i/2", "eve/j/2", "heavy/i/3", "ann/f/3")
	for _, job := range []string{"ann/f/1", "ann/f/2", "ann/f/3", "ann/h/1", "bob/g/3", "heavy/i/1", "heavy/i/2", "heavy/i/3", "eve/j/1", "eve/j/2"} {
		turns.done(job)
	}
	if turns.held.Total() != 0 || len(turns.sending) != 0 || len(turns.waiting) != 0 || turns.Len() != 0 {
		t.Errorf("left are %+v", turns)
	}
}

// Who has as many jobs under way as one may have waits for their end, and nobody else does: a federation for
// those of its endpoints, and an account for those of its federations.
func TestEndpointsThatDoNotAnswerHoldUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, answer := newTurns(tenantByName), make(chan struct{})
		var sending atomic.Int64
		posts := worker.New(worker.Config[string]{
			Order: turns, Goroutines: posts, Handle: func(ctx context.Context, job string) (time.Duration, error) {
				defer turns.done(job)
				sending.Add(1)
				defer sending.Add(-1)
				select {
				case <-answer:
				case <-ctx.Done():
				}
				return 0, nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			posts.Run(ctx)
		}()
		for _, step := range []struct {
			tenant  string
			sending int64
		}{
			{"ann/f", postsOfFederation},
			{"ann/g", postsOfAccount},
			{"ann/h", postsOfAccount},
			{"bob/i", postsOfAccount + postsOfFederation},
		} {
			for n := range 3 * postsOfFederation {
				posts.Add(fmt.Sprintf("%s/%d", step.tenant, n))
			}
			synctest.Wait()
			if sending.Load() != step.sending {
				t.Errorf("with the jobs of %s %d are under way, not %d", step.tenant, sending.Load(), step.sending)
			}
		}
		// The next is sent when one ends.
		answer <- struct{}{}
		synctest.Wait()
		if sending.Load() != postsOfAccount+postsOfFederation {
			t.Errorf("%d are under way after one has ended", sending.Load())
		}
		close(answer)
		synctest.Wait()
		if posts.Len() != 0 || sending.Load() != 0 {
			t.Errorf("%d wait, and %d are under way", posts.Len(), sending.Load())
		}
		cancel()
		<-ended
	})
}

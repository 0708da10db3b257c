package syncer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// Jobs of one owner whose POSTs OSCAR does not answer, however many, leave slots for others.
func TestJobsThatHangHoldNoOtherOwnersJobsUp(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r, other, i := newUser(t)
		inner, let := r.oscar("syncer"), make(chan struct{})
		hung := make(chan struct{}, 1000)
		r.deliver(i.Token(alice, nil), inAnHour())
		defer close(let)
		r.start(func(c *syncer.Config) {
			c.OSCAR = &poster{OSCAR: inner, submit: func(ctx context.Context, job manager.Submission, timeout time.Duration) error {
				if job.Service == "greedy" {
					hung <- struct{}{}
					<-let
					return &manager.APIError{Op: manager.OpSubmit, Err: context.DeadlineExceeded}
				}
				return inner.Submit(ctx, job, timeout)
			}}
		})
		greedy := newReplica("greedy")
		r.makeReady(greedy)
		r.makeReady(other)
		var all []*work
		for i := range 300 {
			all = append(all, newWork(greedy, fmt.Sprint("event ", i)))
		}
		r.assign(all...)
		for range 8 {
			<-hung
		}
		late := newWork(other, "late")
		late.assignment.Federation = "another"
		r.assign(late)
		r.awaitJob(late, record.JobSubmitted, record.JobRunning, record.JobSucceeded)
		if n := len(hung); n > 0 {
			t.Errorf("one owner has %d of 16 slots", 8+n)
		}
	})
}

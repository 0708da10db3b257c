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

// One owner alone has all slots. However many of his POSTs OSCAR does not answer, another owner's first
// job gets the next slot.
func TestJobsThatHangHoldNoOtherOwnersJobsUp(t *testing.T) {
	const posts = 16
	await.InVirtualTime(t, func(t *testing.T) {
		r, other, i := newUser(t)
		inner, let, over := r.oscar("syncer"), make(chan struct{}), make(chan struct{})
		defer close(over)
		hung := make(chan struct{}, 1000)
		r.deliver(i.Token(alice, nil), inAnHour())
		r.start(func(c *syncer.Config) {
			c.OSCAR = &poster{OSCAR: inner, submit: func(ctx context.Context, job manager.Submission, timeout time.Duration) error {
				if job.Service == "greedy" {
					hung <- struct{}{}
					select {
					case <-let:
					case <-over:
					}
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
		for range posts {
			<-hung
		}
		late := newWork(other, "late")
		late.assignment.Federation = "another"
		r.assign(late)
		r.awaitJob(late, record.JobClaimed)
		let <- struct{}{}
		r.awaitJob(late, record.JobSubmitted, record.JobRunning, record.JobSucceeded)
	})
}

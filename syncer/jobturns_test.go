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

// One owner alone has all slots but those that are kept for others. However many of his POSTs OSCAR does not answer,
// another owner's first job gets one of those.
func TestJobsThatHangHoldNoOtherOwnersJobsUp(t *testing.T) {
	const posts, kept = 16, 2
	await.InVirtualTime(t, func(t *testing.T) {
		r, other, i := newUser(t)
		inner, over := r.oscar("syncer"), make(chan struct{})
		defer close(over)
		hung := make(chan struct{}, 1000)
		r.deliver(i.Token(alice, nil), inAnHour())
		r.start(func(c *syncer.Config) {
			c.OSCAR = &poster{OSCAR: inner, submit: func(ctx context.Context, job manager.Submission, timeout time.Duration) error {
				if job.Service == "greedy" {
					hung <- struct{}{}
					<-over
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
		for range posts - kept {
			<-hung
		}
		late := newWork(other, "late")
		late.assignment.Federation = "another"
		r.assign(late)
		r.awaitJob(late, record.JobClaimed, record.JobSubmitted, record.JobRunning, record.JobSucceeded)
	})
}

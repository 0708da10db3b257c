package syncer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// A job whose event is MinIO's goes with the service's token; any other one with an access
// token of the owner, by which OSCAR may ask for keys while it is posted and no longer.
func TestWhatOSCARIsShownWithAJob(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		a := newAbroad(t, func(c *oscarsim.Config) { c.Workload = quick })
		holder, owners := a.startHolder(), a.issuer.Token(alice, nil)
		holder.give(owners, time.Now().Add(10*time.Minute))
		type post struct {
			token  string
			status int
		}
		posts := make(chan post, 10)
		a.start(a.lends, func(c *syncer.Config) {
			c.OSCAR = &poster{OSCAR: c.OSCAR, submit: func(_ context.Context, job manager.Submission, _ time.Duration) error {
				status, _ := a.keys(string(job.Token))
				posts <- post{string(job.Token), status}
				return nil
			}}
		})
		a.want(a.p, record.IntentApply)
		a.await(a.p, record.PhaseReady, readable)
		// From now on only what comes from elsewhere is good.
		a.deliver(a.issuer.Token(alice, nil), time.Now().Add(-time.Second))

		event := newWork(a.p, `{"Records":[{"requestParameters":{"principalId":"bob","sourceIPAddress":"::1"}}]}`)
		a.assign(event)
		a.awaitJob(event, record.JobSubmitted, record.JobVanished)
		if got := <-posts; got.token != a.p.token || got.status != 200 {
			t.Errorf("an event of MinIO: %d with the service's token: %v", got.status, got.token == a.p.token)
		}
		other := newWork(a.p, "hello")
		a.assign(other)
		a.awaitJob(other, record.JobSubmitted, record.JobVanished)
		if got := <-posts; got.token != owners || got.status != 200 {
			t.Errorf("another event: %d, with the owner's token: %v", got.status, got.token == owners)
		}
		a.eventually("the token opens nothing any more", func() bool { status, _ := a.keys(owners); return status == 401 })

		holder.give("", time.Time{})
		<-time.After(10 * time.Minute) // it has expired
		late := newWork(a.p, "hello")
		a.assign(late)
		<-time.After(30 * time.Second) // the holder is away so long
		owners = a.issuer.Token(alice, nil)
		holder.give(owners, time.Now().Add(10*time.Minute))
		a.awaitJob(late, record.JobSubmitted, record.JobVanished)
		if got := <-posts; got.token != owners || got.status != 200 {
			t.Errorf("when the holder is back: %d, with the owner's token: %v", got.status, got.token == owners)
		}

		holder.give("", time.Time{})
		<-time.After(10 * time.Minute)
		none := newWork(a.p, "hello")
		a.assign(none)
		if got := a.awaitJob(none, record.JobRefused); got.Reason != record.JobNeedsUserToken || !strings.Contains(got.Message, "nobody holds it") || got.PostedAt != nil {
			t.Errorf("without a token: %+v", got)
		}
		if len(posts) != 0 {
			t.Error("it was posted")
		}
	})
}

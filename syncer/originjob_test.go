package syncer_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
	"github.com/oscarfed/oscarfed/test/await"
)

// tokens is a source that has none until it is given one.
type tokens struct {
	mu    sync.Mutex
	value string
}

func (s *tokens) give(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value = value
}

func (s *tokens) AccessToken(context.Context, ownertoken.For) (ownertoken.AccessToken, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.value == "" {
		return ownertoken.AccessToken{}, &ownertoken.NoTokenError{Reason: record.ReasonTokenHolderAway, Message: "nobody holds it"}
	}
	return ownertoken.AccessToken{Value: manager.Bearer(s.value), Expires: inAnHour()}, nil
}

// A job whose event is MinIO's goes with the service's token; any other one with an access
// token of the owner, by which OSCAR may ask for keys while it is posted and no longer.
func TestWhatOSCARIsShownWithAJob(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		a := newAbroad(t, func(c *oscarsim.Config) { c.Workload = quick })
		source := &tokens{}
		source.give(a.issuer.Token(alice, nil))
		type post struct {
			token  string
			status int
		}
		posts := make(chan post, 10)
		a.start(a.lends, func(c *syncer.Config) {
			c.Tokens = source
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
		if got := <-posts; got.token != source.value || got.status != 200 {
			t.Errorf("another event: %d, with the owner's token: %v", got.status, got.token == source.value)
		}
		a.eventually("the token opens nothing any more", func() bool { status, _ := a.keys(source.value); return status == 401 })

		source.give("")
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

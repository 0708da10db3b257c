package jobs

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
	"github.com/oscarfed/oscarfed/syncer/session"
)

func TestAnAttemptWithoutAToken(t *testing.T) {
	without := func(s *situation) {
		s.memory.unfit = &unfitError{record.JobNeedsUserToken, "there is none"}
	}
	for _, state := range []record.JobState{"", record.JobClaimed} {
		if d := plan(jobWith(state, without)); d.step != stepReport || d.state != record.JobRefused || d.reason != record.JobNeedsUserToken || d.message != "there is none" {
			t.Errorf("%q: %+v", state, d)
		}
	}
	// Once it was posted, and nobody knows what came of it, the want of a token says nothing.
	d := plan(jobWith(record.JobSubmitting, posted(postUnknown, time.Minute), listedAgo(0, ""), without))
	if d.step != stepReport || d.state != record.JobUncertain {
		t.Errorf("after a POST without an answer: %+v", d)
	}
	if d := plan(jobWith(record.JobSubmitting, posted(postUnsent, time.Second), without)); d.state != record.JobRefused || d.reason != record.JobNeedsUserToken {
		t.Errorf("after a POST that was not sent: %+v", d)
	}
}

// jobsAt are jobs of a session whose clock is now.
func jobsAt(now *time.Time) *Jobs {
	return &Jobs{
		cfg:     Config{Limits: Limits{Resend: 5 * time.Minute}, RetryPause: time.Second},
		session: &session.Session{Cluster: &session.Cluster{Now: func() time.Time { return *now }, Log: slog.New(slog.DiscardHandler)}},
		due:     worker.New(worker.Config[string]{HandleAll: func(context.Context, []string) {}, Most: 1}),
	}
}

// TestAClaimedJobThatCannotBePreparedStays: its definition cannot be read, and it was tried again for ever.
func TestAClaimedJobThatCannotBePreparedStays(t *testing.T) {
	t.Parallel()
	now := planTime
	j, a := jobsAt(&now), &attempt{key: "job.1"}
	fails := func(err error) {
		t.Helper()
		a.memory.busy = true
		if j.opened(t.Context(), a, nil, err); a.memory.busy {
			t.Fatal("it is still at work")
		}
	}
	for range 600 {
		fails(&store.CorruptError{Key: "spec"})
		if d := plan(jobWith(record.JobClaimed, func(s *situation) { s.memory = a.memory })); now.Before(planTime.Add(j.cfg.Resend)) != (d.step == stepBegin) {
			t.Fatalf("after %s: %+v", now.Sub(planTime), d)
		} else if d.step != stepBegin {
			if d.state != record.JobRefused || d.reason != record.JobWithdrawn {
				t.Errorf("after %s: %+v", now.Sub(planTime), d)
			}
			break
		}
		now = now.Add(time.Second)
	}
	// A read that succeeds begins it anew, and an access token that is on its way is waited for.
	a.memory = memory{}
	fails(store.ErrUnavailable)
	now = now.Add(time.Hour)
	j.opened(t.Context(), a, &openedJob{}, nil)
	fails(store.ErrUnavailable)
	now = now.Add(time.Hour)
	fails(&ownertoken.NoTokenError{Pending: true})
	if a.memory.unfit != nil {
		t.Errorf("it is given back: %v", a.memory.unfit)
	}
}

// TestAClaimedJobWaitsForTheHolderOfATokenAMinute: then another member may have it.
func TestAClaimedJobWaitsForTheHolderOfATokenAMinute(t *testing.T) {
	t.Parallel()
	now := planTime
	j, a := jobsAt(&now), &attempt{key: "job.1"}
	for a.memory.unfit == nil {
		a.memory.busy = true
		j.opened(t.Context(), a, nil, &ownertoken.NoTokenError{Reason: record.ReasonTokenHolderAway, Message: "it is away"})
		now = now.Add(time.Second)
	}
	if took := now.Sub(planTime); a.memory.busy || took != holderPatience+time.Second || a.memory.unfit.reason != record.JobNeedsUserToken ||
		!strings.Contains(a.memory.unfit.message, "it is away") {
		t.Errorf("after %s: %+v", took, a.memory.unfit)
	}
}

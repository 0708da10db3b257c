package jobs

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
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

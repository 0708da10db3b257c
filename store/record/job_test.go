package record_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/store/record"
)

// Whatever the service is called, the name of its Job is one that Kubernetes takes, and
// tells job and attempt.
func TestJobNamesAreTakenApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		service := rapid.StringMatching(`[a-z]([-a-z0-9]{0,37}[a-z0-9])?`).Draw(t, "service")
		attempt := rapid.IntRange(1, 10_000_000).Draw(t, "attempt")
		job := uuid.NewString()
		name := record.JobName(service, job, attempt)
		if len(name) > 63 || strings.Contains(name, "--") && !strings.Contains(service, "--") {
			t.Errorf("%q", name)
		}
		gotJob, gotAttempt, ok := record.OfJobName(name)
		if !ok || gotJob != job || gotAttempt != attempt {
			t.Errorf("%q is %q %d %t", name, gotJob, gotAttempt, ok)
		}
	})
	for _, name := range []string{"", "-", "grayify", "grayify-" + uuid.NewString(), uuid.NewString() + "-1", "s-" + uuid.NewString() + "-0",
		"s-" + uuid.NewString() + "-01", "s-" + uuid.NewString() + "-x", "s" + uuid.NewString() + "-1"} {
		if job, attempt, ok := record.OfJobName(name); ok {
			t.Errorf("%q is attempt %d of %q", name, attempt, job)
		}
	}
}

// TestAPlaceThatRefusedTheJobBeforeItsReplayWasAvoided: an attempt that could not read its inputs counts as a try, and the
// loop took a refusal from before the replay in its place.
func TestAPlaceThatRefusedTheJobBeforeItsReplayWasAvoided(t *testing.T) {
	refused := func(place string) record.Attempt { return record.Attempt{State: record.JobRefused, Place: place} }
	unread := record.Attempt{State: record.JobFailed, Reason: record.JobInputsUnreadable, Place: "c/s"}
	j := record.Job{Past: []record.Attempt{refused("a/s"), refused("b/s"), unread}, Tries: 1}
	if got := j.RefusedAt(); len(got) != 0 {
		t.Errorf("after a replay it avoids %v", got)
	}
	j.Tries = 2
	if got := j.RefusedAt(); !slices.Equal(got, []string{"b/s"}) {
		t.Errorf("with one refusal since the replay it avoids %v", got)
	}
}

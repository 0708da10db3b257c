package record_test

import (
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

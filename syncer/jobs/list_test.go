package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// TestAJobThatIsListedWhileItIsPosted and then deleted is not posted again, although OSCAR never answers.
func TestAJobThatIsListedWhileItIsPosted(t *testing.T) {
	t.Parallel()
	j := &Jobs{due: worker.New(worker.Config[string]{HandleAll: func(context.Context, []string) {}, Most: 1})}
	s := jobWith(record.JobSubmitting)
	a := &attempt{key: "job.1", assignment: s.assignment, report: s.report}
	j.saw(a, s.now.Add(-2*time.Minute), map[string]listedJob{s.assignment.Name: {Job: manager.Job{Status: "Succeeded"}}})
	j.saw(a, s.now, nil)
	s.memory = a.memory
	posted(postUnknown, time.Minute)(&s)
	if d := plan(s); d.step != stepReport || d.state != record.JobSubmitted {
		t.Errorf("%+v", d)
	}
}

package jobs

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/originstorage"
)

// A job that has failed goes back by itself only when nothing of the service can have run: all
// that it takes for that holds, and whatever is missing keeps it failed.
func TestAJobGoesBackOnlyWhenItsInputsWereUnreadable(t *testing.T) {
	// The MinIO answered 10 s ago, the job had not started 8 s ago, has failed 3 s ago, and a look
	// of a second ago has found no MinIO.
	unread := func(change ...func(*situation)) situation {
		s := jobWith(record.JobRunning, shows("Failed", kube.PodState{Reason: "Error", ExitCode: 1, Ran: true}))
		ago := func(n int) time.Time { return s.now.Add(-time.Duration(n) * time.Second) }
		s.memory.fromOrigin, s.memory.unstarted, s.memory.failed = true, ago(8), ago(3)
		s.minio = originstorage.MinIO{Readable: ago(10), Dead: ago(1)}
		for _, c := range change {
			c(&s)
		}
		return s
	}
	for _, c := range []struct {
		name   string
		s      situation
		step   step
		reason record.JobReason
	}{
		{"all holds", unread(), stepReport, record.JobInputsUnreadable},
		{"it reads nothing there", unread(func(s *situation) { s.memory.fromOrigin = false }), stepReport, record.JobPodFailed},
		{"it may have started while the MinIO answered", unread(func(s *situation) { s.minio.Readable = s.now.Add(-7 * time.Second) }), stepReport, record.JobPodFailed},
		{"whether the MinIO has ever answered is not known", unread(func(s *situation) { s.minio.Readable = time.Time{} }), stepReport, record.JobPodFailed},
		{"the MinIO answers again", unread(func(s *situation) { s.minio.Readable = s.now }), stepReport, record.JobPodFailed},
		{"no look since it failed", unread(func(s *situation) { s.minio.Dead = s.now.Add(-4 * time.Second) }), stepRest, ""},
		{"and none for long", unread(func(s *situation) {
			s.minio.Dead, s.memory.failed = time.Time{}, s.now.Add(-failedLook)
			s.minio.Readable, s.memory.unstarted = s.now.Add(-2*failedLook), s.now.Add(-failedLook-time.Second)
		}), stepReport, record.JobPodFailed},
		{"by a former process", unread(func(s *situation) { s.memory.failed, s.memory.fromOrigin = time.Time{}, false }), stepReport, record.JobPodFailed},
		{"it has succeeded", unread(func(s *situation) { s.memory.listed.job.Status = "Succeeded" }), stepReport, ""},
	} {
		if d := plan(c.s); d.step != c.step || d.reason != c.reason {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

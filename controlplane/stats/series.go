package stats

import (
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// step is the length of one step of a series, and steps how many an hour has.
	step  = 10 * time.Second
	steps = 360
	// maxOwners is how many owners have a series; each takes 20 KiB.
	maxOwners = 1000
)

// sample is one step.
type sample struct {
	queued, running            int32
	started, succeeded, failed int32
	wait                       time.Duration
}

// series is a ring of samples. present is the one that is being filled.
type series struct {
	samples [steps]sample
	next    int
	filled  int
	present sample
}

// take notes that a job has another state.
func (s *series) take(m view.JobMove, now time.Time) {
	if began(m.To) && !began(m.From) && m.To != record.JobFailed {
		s.present.started++
		s.present.wait += waited(m.Job, now)
	}
	switch {
	case m.From.Ended() || !m.To.Ended():
	case m.To == record.JobSucceeded:
		s.present.succeeded++
	case m.To == record.JobCancelled || m.To == record.JobReturned:
	default:
		s.present.failed++
	}
}

// began says whether a state shows that a job has run.
func began(s record.JobState) bool {
	return s == record.JobRunning || s == record.JobSucceeded || s == record.JobFailed
}

// waited is the time from a job's acceptance to its start: by the clock of its OSCAR where that
// tells something possible, and else by ours.
func waited(j *record.Job, now time.Time) time.Duration {
	at := now
	if j.StartedAt != nil && j.StartedAt.After(j.AcceptedAt.Time) && j.StartedAt.Before(now) {
		at = j.StartedAt.Time
	}
	return max(at.Sub(j.AcceptedAt.Time), 0)
}

// end ends the present step with what there is of jobs.
func (s *series) end(t view.Tally) {
	s.present.queued, s.present.running = 0, 0
	for state, n := range t.States() {
		switch {
		case state == record.JobQueued:
			s.present.queued += int32(n) //nolint:gosec // far fewer jobs fit into a store
		case !state.Ended():
			s.present.running += int32(n) //nolint:gosec // far fewer jobs fit into a store
		}
	}
	s.samples[s.next], s.present = s.present, sample{}
	s.next, s.filled = (s.next+1)%steps, min(s.filled+1, steps)
}

// idle says that nothing has happened in the whole series.
func (s *series) idle() bool { return s.samples == [steps]sample{} && s.present == sample{} }

// wire is the series up to the end of its last step.
func (s *series) wire(end time.Time) *v1.JobSeries {
	out := &v1.JobSeries{
		StepSeconds: int(step / time.Second), End: v1.Time{Time: end},
		Queued: []int{}, Running: []int{}, Started: []int{}, Succeeded: []int{}, Failed: []int{}, WaitSeconds: []*float64{},
	}
	for i := range s.filled {
		one := s.samples[(s.next-s.filled+i+steps)%steps]
		out.Queued, out.Running = append(out.Queued, int(one.queued)), append(out.Running, int(one.running))
		out.Started, out.Succeeded, out.Failed = append(out.Started, int(one.started)), append(out.Succeeded, int(one.succeeded)), append(out.Failed, int(one.failed))
		var wait *float64
		if one.started > 0 {
			wait = new(one.wait.Seconds() / float64(one.started))
		}
		out.WaitSeconds = append(out.WaitSeconds, wait)
	}
	return out
}

package watch

import (
	"context"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/events"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
)

// firstEvents is how many events a watch begins with that is not resumed.
const firstEvents = 100

// events are the events of a query.
func (q *Query) events() events.Query {
	return events.Query{Federation: q.Federation, ClusterID: q.Filter.ClusterID, Owner: q.Filter.Owner}
}

// jobs are the jobs of a query.
func (q *Query) jobs() jobs.Query {
	return jobs.Query{Federation: q.Federation, ClusterID: q.Filter.ClusterID}
}

// tellEvents tells what has happened after a revision; 0 is the last events that there are. It
// gives how many there were.
func (f *follower) tellEvents(after int64) (int, error) {
	if !f.q.has(v1.EventHappened) {
		return 0, nil
	}
	happened, err := f.c.cfg.Events.After(f.caller, f.q.events(), after, firstEvents)
	if err != nil {
		return 0, crossing(err)
	}
	for i := range happened {
		one := &happened[i]
		if err := f.w.Event(v1.Event{Revision: one.Revision, Kind: v1.EventHappened, Name: one.ID, Event: one}); err != nil {
			return 0, err
		}
	}
	return len(happened), nil
}

// tellJobs tells the jobs that have changed after a revision; 0 is those that have not ended. It
// gives how many there were.
func (f *follower) tellJobs(ctx context.Context, after int64) (int, error) {
	if f.jobs == nil {
		return 0, nil
	}
	told := 0
	err := f.jobs.Step(ctx, after, func(revision int64, j *jobs.Job) error {
		if !f.q.Filter.MatchesOwner(j.Owner) {
			return nil
		}
		told++
		wire := j.Wire(f.caller)
		return f.w.Event(v1.Event{Revision: revision, Kind: v1.EventJob, Name: j.ID, Job: &wire})
	})
	return told, crossing(err)
}

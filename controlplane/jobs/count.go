package jobs

import (
	"context"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// State is how far a job has come.
type State = record.JobState

// Count counts the jobs of a query that the caller may see, by state; its states,
// Before and Limit do not count.
func (c *Controller) Count(ctx context.Context, caller identity.Caller, q Query) (map[State]int, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	var out map[State]int
	c.state.Read(func(v *view.View) { out = count(v, caller, q) })
	return out, nil
}

// count is Count in a view.
func count(v *view.View, caller identity.Caller, q Query) map[State]int {
	q.States = nil
	out := map[State]int{}
	for p := range v.Jobs.Begun.Backward() {
		if p < q.first() {
			break
		}
		id := p.ID()
		if q.timed() && !q.acceptedIn(v.Jobs.ByID.Head(id).AcceptedAt) {
			continue
		}
		if view := visible(v, caller, q, id); view != nil {
			out[view.State]++
		}
	}
	if n := countQueued(v, caller, q); n > 0 {
		out[record.JobQueued] += n
	}
	return out
}

// countQueued counts the queued jobs of a query. Those of one class are alike in all that it asks
// for but a cluster and a time, so that their first one stands for them.
func countQueued(v *view.View, caller identity.Caller, q Query) (n int) {
	ofAnyTime := q
	ofAnyTime.Since, ofAnyTime.Until = time.Time{}, time.Time{}
	for uid := range q.federations(v) {
		for _, queue := range v.Jobs.Queued.Get(uid).All() {
			for _, jobs := range queue.All() {
				if q.ClusterID != "" { // they may have been at different ones
					for id := range jobs.IDs() {
						if visible(v, caller, q, id) != nil {
							n++
						}
					}
					continue
				}
				switch {
				case visible(v, caller, ofAnyTime, jobs.First().ID()) == nil:
				case !q.timed():
					n += jobs.Len()
				default:
					n += countAccepted(v, q, jobs)
				}
			}
		}
	}
	return n
}

// countAccepted counts the jobs of a list that were accepted at the time that a query asks for.
func countAccepted(v *view.View, q Query, jobs view.List) (n int) {
	for p := range jobs.Backward() {
		if p < q.first() {
			break
		}
		if q.acceptedIn(v.Jobs.ByID.Head(p.ID()).AcceptedAt) {
			n++
		}
	}
	return n
}

package jobs

import (
	"context"

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
	q.States = nil
	out := map[State]int{}
	c.state.Read(func(v *view.View) {
		count := func(id string) {
			if view := jobFor(v, caller, q, id); view != nil {
				out[view.State]++
			}
		}
		if _, ok := v.Federations.Lookup(q.Federation); ok {
			for id := range v.Jobs.ByFederation.Of(q.Federation).All() {
				count(id)
			}
			return
		}
		for id := range v.Jobs.ByID.IDs() {
			count(id)
		}
	})
	return out, nil
}

package jobs

import (
	"context"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
)

const (
	// maxFirst is how many unfinished jobs a follower begins with: the newest.
	maxFirst = 1000
	// maxMissed is how many jobs may have changed while a follower was away.
	maxMissed = 10_000
	// followAtOnce is how many jobs are shown while the state is locked.
	followAtOnce = 128
)

// Follower gives the jobs of a query that have changed. It remembers ids alone, until they are
// given. One goroutine uses it.
type Follower struct {
	c       *Controller
	caller  identity.Caller
	q       Query
	changed chan struct{}
	take    func() map[string]bool
	drop    func()
	// begun says that there was a step, after which changes are known by their ids.
	begun bool
}

// Follow makes a Follower, which must be closed.
func (c *Controller) Follow(caller identity.Caller, q Query) *Follower {
	w := c.state.Watchers.Add()
	return &Follower{
		c: c, caller: caller, q: q, changed: w.Wake,
		take: func() map[string]bool { return c.state.Watchers.Take(w) },
		drop: func() { c.state.Watchers.Drop(w) },
	}
}

// Close ends it.
func (f *Follower) Close() { f.drop() }

// Changed tells that jobs have changed; that of no Follower tells nothing.
func (f *Follower) Changed() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.changed
}

// Step calls fn with the jobs that have changed, and the revision that they are shown at. The first
// step gives those that changed after a revision or, for 0, the newest that have not ended. The
// error is store.ErrCompacted when more have changed than can be told.
func (f *Follower) Step(ctx context.Context, after int64, fn func(revision int64, j *Job) error) error {
	ids, err := f.ids(after)
	if err != nil {
		return err
	}
	f.begun = true
	for some := range slices.Chunk(ids, followAtOnce) {
		var shown []*Job
		var revision int64
		f.c.state.Read(func(v *view.View) {
			revision = v.Revision
			for _, id := range some {
				if j := visible(v, f.caller, f.q, id); j != nil {
					shown = append(shown, j)
				}
			}
		})
		for _, j := range shown {
			if err := fn(revision, j); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// ids are the jobs that the next step looks at, in the order of their acceptance.
func (f *Follower) ids(after int64) (ids []string, err error) {
	var found []Position
	if f.begun {
		f.c.state.Read(func(v *view.View) {
			for id := range f.take() {
				found = append(found, v.Jobs.ByID.Position(id))
			}
		})
	} else {
		f.c.walk(f.caller, f.q, func(*view.View) { f.take() }, func(v *view.View, p Position, head view.JobHead) bool {
			switch {
			case after == 0 && head.State.Ended():
				return true
			case after == 0 && len(found) == maxFirst:
				return false
			case after != 0 && streamRevision(v, p.ID(), head) <= after:
				return true
			case len(found) == maxMissed:
				err = fmt.Errorf("%w: more than %d jobs have changed after revision %d", store.ErrCompacted, maxMissed, after)
				return false
			}
			found = append(found, p)
			return true
		})
	}
	slices.Sort(found)
	for _, p := range found {
		ids = append(ids, p.ID())
	}
	return ids, err
}

package jobs

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// Watch calls fn with a job, at once when its StreamRevision is not since, and then
// at each change, until ctx ends, fn answers an error, or the job is forgotten, which
// is not_found. The end of the job does not end the watch: a job may be replayed.
func (c *Controller) Watch(ctx context.Context, caller identity.Caller, id string, since int64, fn func(*Job) error) error {
	w := c.state.Watchers.Add()
	defer c.state.Watchers.Drop(w)
	now, err := c.Get(ctx, caller, id)
	if err != nil {
		return err
	}
	if now.StreamRevision != since {
		if err := fn(now); err != nil {
			return err
		}
	}
	for last := now; ; {
		select {
		case <-w.Wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !c.state.Watchers.Take(w)[id] {
			continue
		}
		if now, err = c.Lookup(caller, id); err != nil {
			return err
		}
		if reflect.DeepEqual(now, last) {
			continue
		}
		if err := fn(now); err != nil {
			return err
		}
		last = now
	}
}

// WatchAll calls fn with every job that matches and has not ended or, when since is a
// revision of this store, that has changed after it, and then with each one that comes
// or changes, until ctx ends or fn answers an error. fn gets jobs in the order of their
// StreamRevision, and the revision to go on after when the stream breaks behind it: one transaction
// changes many jobs, and only with the last of them its revision was seen.
// fn gets changes that come faster than it returns as one. It does not get a job that is
// deleted or does not match any more.
func (c *Controller) WatchAll(ctx context.Context, caller identity.Caller, q Query, since int64, fn func(j *Job, seen int64) error) error {
	w := c.state.Watchers.Add()
	defer c.state.Watchers.Drop(w)
	if err := c.gate.Fresh(ctx); err != nil {
		return err
	}
	var views []*Job
	c.state.Read(func(v *view.View) {
		c.state.Watchers.Take(w)
		if since > v.Revision {
			since = 0 // it is of a history that was lost
		}
		for id := range v.Jobs.ByID.IDs() {
			if h := v.Jobs.ByID.Head(id); h.State == record.JobQueued && since > 0 && h.Revision <= since {
				continue
			}
			view := visible(v, caller, q, id)
			if view != nil && (since == 0 && !view.State.Ended() || since > 0 && view.StreamRevision > since) {
				views = append(views, view)
			}
		}
	})
	for {
		slices.SortFunc(views, func(a, b *Job) int {
			return cmp.Or(cmp.Compare(a.StreamRevision, b.StreamRevision), cmp.Compare(a.ID, b.ID))
		})
		for i, view := range views {
			seen := view.StreamRevision
			if i+1 < len(views) && views[i+1].StreamRevision == seen {
				seen--
			}
			if err := fn(view, seen); err != nil {
				return err
			}
		}
		select {
		case <-w.Wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		views = nil
		c.state.Read(func(v *view.View) {
			for id := range c.state.Watchers.Take(w) {
				if view := visible(v, caller, q, id); view != nil {
					views = append(views, view)
				}
			}
		})
	}
}

// visible is a job that matches and that the caller may see; nil otherwise.
func visible(v *view.View, caller identity.Caller, q Query, id string) *Job {
	if !v.Jobs.ByID.Has(id) || !mayReadJob(v, caller, v.Jobs.ByID.Head(id)) {
		return nil
	}
	if view := viewOf(v, id); q.matches(view) {
		return view
	}
	return nil
}

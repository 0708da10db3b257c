package jobs

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
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
	found, since := c.standing(caller, q, since, func() { c.state.Watchers.Take(w) })
	unfinished := since == 0
	for {
		err := c.tell(ctx, caller, q, found, func(j *Job, seen int64) error {
			if unfinished && j.State.Ended() {
				return nil
			}
			return fn(j, seen)
		})
		if err != nil {
			return err
		}
		found, unfinished = nil, false // nothing is kept while it waits
		select {
		case <-w.Wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		c.state.Read(func(v *view.View) {
			for id := range c.state.Watchers.Take(w) {
				if !v.Jobs.ByID.Has(id) {
					continue
				}
				if h := v.Jobs.ByID.Head(id); q.may(h) && mayReadJob(v, caller, h) {
					found = append(found, written{id, streamRevision(v, id, h)})
				}
			}
		})
	}
}

// written is a job, and its StreamRevision when it was looked at.
type written struct {
	id       string
	revision int64
}

// standing are the jobs that may match and have not ended or, when since is a revision of this store, that have changed
// after it; otherwise since is 0. begin is called within the first look: a job that changes after it is left out.
func (c *Controller) standing(caller identity.Caller, q Query, since int64, begin func()) (found []written, after int64) {
	var now int64
	c.walk(caller, q, func(v *view.View) {
		begin()
		if now = v.Revision; since > now {
			since = 0 // it is of a history that was lost
		}
	}, func(v *view.View, p Position, h view.JobHead) bool {
		id := p.ID()
		if at := streamRevision(v, id, h); at <= now && (since == 0 && !h.State.Ended() || since > 0 && at > since) {
			found = append(found, written{id, at})
		}
		return true
	})
	return found, since
}

// tell calls fn with jobs in the order of their StreamRevision, some of them at a time. It leaves out those that have
// changed again, of which a watcher is notified.
func (c *Controller) tell(ctx context.Context, caller identity.Caller, q Query, jobs []written, fn func(j *Job, seen int64) error) error {
	slices.SortFunc(jobs, func(a, b written) int {
		return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.id, b.id))
	})
	for len(jobs) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		some := jobs[:min(len(jobs), followAtOnce)]
		shown := make([]*Job, len(some))
		c.state.Read(func(v *view.View) {
			for i, one := range some {
				shown[i] = visible(v, caller, q, one.id)
			}
		})
		for i, j := range shown {
			seen := some[i].revision
			if j == nil || j.StreamRevision != seen {
				continue
			}
			if i+1 < len(jobs) && jobs[i+1].revision == seen {
				seen--
			}
			if err := fn(j, seen); err != nil {
				return err
			}
		}
		jobs = jobs[len(some):]
	}
	return nil
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

package controlplane

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// jobWatchers tells those who watch jobs which have changed.
type jobWatchers struct {
	mu  sync.Mutex
	all map[*jobWatcher]bool
}

// jobWatcher gathers the ids of jobs that have changed until they are fetched.
type jobWatcher struct {
	wake  chan struct{}
	dirty map[string]bool
}

func (w *jobWatchers) add() *jobWatcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*jobWatcher]bool{}
	}
	one := &jobWatcher{wake: make(chan struct{}, 1), dirty: map[string]bool{}}
	w.all[one] = true
	return one
}

func (w *jobWatchers) drop(one *jobWatcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, one)
}

func (w *jobWatchers) tell(ids map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		maps.Copy(one.dirty, ids)
		nudge(one.wake)
	}
}

func (w *jobWatchers) take(one *jobWatcher) map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := one.dirty
	one.dirty = map[string]bool{}
	return out
}

// WatchJob calls fn with a job, at once when its StreamRevision is not since, and then
// at each change, until ctx ends, fn answers an error, or the job is forgotten, which
// is not_found. An end of the job does not end it: a job may be replayed.
func (c *ControlPlane) WatchJob(ctx context.Context, caller identity.Caller, id string, since int64, fn func(*Job) error) error {
	w := c.state.watchers.add()
	defer c.state.watchers.drop(w)
	now, err := c.Job(ctx, caller, id)
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
		case <-w.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !c.state.watchers.take(w)[id] {
			continue
		}
		if now, err = c.jobAsSeen(caller, id); err != nil {
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

// WatchJobs calls fn with every job that matches and has not ended or, when since is a
// revision of this store, that has changed after it, and then with each one that comes
// or changes, until ctx ends or fn answers an error. Jobs are told in the order of
// their StreamRevision: whoever has seen one has seen, of all jobs, what is not newer.
// Changes that come faster than fn takes them are told once. A job that is forgotten,
// or does not match any more, is not told of.
func (c *ControlPlane) WatchJobs(ctx context.Context, caller identity.Caller, q JobQuery, since int64, fn func(*Job) error) error {
	w := c.state.watchers.add()
	defer c.state.watchers.drop(w)
	if err := c.fresh(ctx); err != nil {
		return err
	}
	var views []*Job
	c.state.read(func(v *View) {
		c.state.watchers.take(w)
		if since > v.revision {
			since = 0 // it is of a history that was lost
		}
		for id := range v.jobs.all {
			view := v.jobFor(caller, q, id)
			if view != nil && (since == 0 && !view.State.Ended() || since > 0 && view.StreamRevision > since) {
				views = append(views, view)
			}
		}
	})
	for {
		slices.SortFunc(views, func(a, b *Job) int {
			return cmp.Or(cmp.Compare(a.StreamRevision, b.StreamRevision), cmp.Compare(a.ID, b.ID))
		})
		for _, view := range views {
			if err := fn(view); err != nil {
				return err
			}
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		views = nil
		c.state.read(func(v *View) {
			for id := range c.state.watchers.take(w) {
				if view := v.jobFor(caller, q, id); view != nil {
					views = append(views, view)
				}
			}
		})
	}
}

// jobFor is a job that matches and that the caller may see; nil when it does not, or he may
// not.
func (v *View) jobFor(caller identity.Caller, q JobQuery, id string) *Job {
	j, ok := v.jobs.all[id]
	if !ok || !v.mayReadJob(caller, j.rec) {
		return nil
	}
	if view := v.jobView(id); q.matches(view) {
		return view
	}
	return nil
}

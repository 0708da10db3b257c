package controlplane

import (
	"context"
	"reflect"
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

func (w *jobWatchers) tell(ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		for _, id := range ids {
			one.dirty[id] = true
		}
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

// WatchJob calls fn with a job, at once and then at each change, until it has ended and
// fn was told, until ctx ends, or until fn answers an error.
func (c *ControlPlane) WatchJob(ctx context.Context, caller identity.Caller, id string, fn func(*Job) error) error {
	w := c.watchers.add()
	defer c.watchers.drop(w)
	last, err := c.Job(ctx, caller, id)
	if err != nil {
		return err
	}
	for {
		if err := fn(last); err != nil || last.State.Ended() && !last.Unreachable {
			return err
		}
		for {
			select {
			case <-w.wake:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if !c.watchers.take(w)[id] {
				continue
			}
			now, err := c.jobAsSeen(caller, id)
			if err != nil {
				return err
			}
			if !reflect.DeepEqual(now, last) {
				last = now
				break
			}
		}
	}
}

// WatchJobs calls fn with every job that matches, as it is at its change, until ctx ends
// or fn answers an error. It begins with what changes next. Changes that come faster
// than fn takes them are told once.
func (c *ControlPlane) WatchJobs(ctx context.Context, caller identity.Caller, q JobQuery, fn func(*Job) error) error {
	w := c.watchers.add()
	defer c.watchers.drop(w)
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for id := range c.watchers.take(w) {
			view, err := c.jobAsSeen(caller, id)
			if err != nil || !q.matches(view) {
				continue // swept, or not for him
			}
			if err := fn(view); err != nil {
				return err
			}
		}
	}
}

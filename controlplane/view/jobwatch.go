package view

import (
	"maps"
	"sync"

	"github.com/oscarfed/oscarfed/internal/signal"
)

// jobWatchers notifies watchers of the jobs that have changed.
type jobWatchers struct {
	mu  sync.Mutex
	all map[*jobWatcher]bool
}

// jobWatcher gathers the ids of jobs that have changed until they are fetched.
type jobWatcher struct {
	Wake  signal.Signal
	dirty map[string]bool
}

func (w *jobWatchers) Add() *jobWatcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*jobWatcher]bool{}
	}
	one := &jobWatcher{Wake: signal.New(), dirty: map[string]bool{}}
	w.all[one] = true
	return one
}

func (w *jobWatchers) Drop(one *jobWatcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, one)
}

func (w *jobWatchers) notify(ids map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		maps.Copy(one.dirty, ids)
		one.Wake.Send()
	}
}

func (w *jobWatchers) Take(one *jobWatcher) map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := one.dirty
	one.dirty = map[string]bool{}
	return out
}

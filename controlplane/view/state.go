package view

import (
	"context"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// State is what this instance knows of the store, decoded and indexed, and consistent at one
// revision. It is a cache: every decision that is taken from it is committed by a transaction
// that compares the federation it was taken for. It is read through Read alone.
type State struct {
	Mirror *store.Mirror
	feed   *store.Feed
	now    func() time.Time
	// Elapsed is the time that all instances agree on, counted on by the clock now.
	Elapsed elapsed
	// subscribers are called with the changes of each refresh. They are fixed before Run.
	subscribers []func(*Changes)
	// observers are called within each refresh. They are fixed before Run.
	observers []func(*View, *Changes)

	mu   sync.RWMutex
	view View
	// mirrored is the mirror at the revision of view.
	mirrored *store.MirrorView
	changed  chan struct{}
	// Watchers, of jobs, are notified within the refresh: a later read shows nothing newer than
	// what they were notified of. Waiters, of one federation or service, are, too.
	Watchers jobWatchers
	Waiters  waiters
}

// NewState follows a mirror. It starts nothing.
func NewState(mirror *store.Mirror, now func() time.Time) *State {
	return &State{
		Mirror: mirror, feed: mirror.Feed(), now: now, changed: make(chan struct{}), view: newView(),
	}
}

// Subscribe makes each refresh that changed something call fn, outside of the state's lock. All
// callers subscribe before Run.
func (s *State) Subscribe(fn func(*Changes)) { s.subscribers = append(s.subscribers, fn) }

// Observe makes each refresh that changed something call fn before it shows anything, so that a
// later read shows nothing newer than what fn was told. fn must be quick, must not read the state,
// and keeps neither of its arguments. All callers observe before Run.
func (s *State) Observe(fn func(*View, *Changes)) { s.observers = append(s.observers, fn) }

// Run keeps the state fresh until ctx ends.
func (s *State) Run(ctx context.Context) error {
	for {
		if err := s.feed.Wait(ctx); err != nil {
			return err
		}
		s.Refresh()
	}
}

// Refresh applies what the mirror has seen since the last call.
func (s *State) Refresh() {
	s.mu.Lock()
	keys, mirrored := s.feed.Take()
	v := &s.view
	news := newChanges()
	v.news = news
	for _, key := range keys {
		ref := record.ParseKey(key)
		if q, rev, ok := mirrored.QueuedJob(key); ok {
			v.applyQueued(ref.Name, q, rev)
			continue
		}
		kv, ok := mirrored.KV(key)
		trouble := v.Trouble(ref.Cluster)
		if ref.Kind == record.KindElapsed {
			s.applyElapsed(kv, ok)
			continue
		}
		v.apply(key, kv, ok)
		if ref.Cluster != "" && v.departing(ref.Cluster) {
			news.Departed = append(news.Departed, ref.Cluster)
		}
		if affectsShown(ref.Kind) || ref.Kind == record.KindObservedCluster && v.Trouble(ref.Cluster) != trouble {
			news.shown[ref.Cluster] = true
		}
	}
	v.Revision, s.mirrored = mirrored.Revision(), mirrored
	s.notifyWaiters(news.Federations, news.shown, news.formerly)
	if len(news.Federations)+len(news.Clusters) > 0 {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	if len(keys) > 0 {
		for _, observe := range s.observers {
			observe(v, news)
		}
	}
	if len(news.Jobs) > 0 {
		s.Watchers.notify(news.Jobs)
	}
	s.mu.Unlock()
	if len(keys) > 0 {
		for _, tell := range s.subscribers {
			tell(news)
		}
	}
}

func (s *State) applyElapsed(kv store.KV, exists bool) {
	if e, err := store.Decode[record.Elapsed](kv); exists && err == nil {
		s.Elapsed.Observe(e, s.now())
	}
}

// Wait returns once the state is at least as new as revision.
func (s *State) Wait(ctx context.Context, revision int64) error {
	s.mu.RLock()
	fresh := s.view.Revision >= revision
	s.mu.RUnlock()
	if fresh {
		return nil
	}
	if err := s.Mirror.Wait(ctx, revision); err != nil {
		return err
	}
	s.Refresh()
	return nil
}

// Watch returns a channel that is closed at the next change of anything. A request that waits
// for one federation or service uses a waiter.
func (s *State) Watch() <-chan struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.changed
}

// Read runs fn while the state does not change. fn must not keep its View.
func (s *State) Read(fn func(*View)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	fn(&s.view)
}

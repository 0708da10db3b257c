package view

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Subject is what somebody waits for a change of: one federation, or whatever
// federation has a member of a name, also one that comes to have it. One of the two
// is empty.
type Subject struct{ federation, Service string }

// waiters tell those who wait for changes of what callers are shown that there is one.
// A thousand who wait for a thousand federations cost a change one look.
type waiters struct {
	mu sync.Mutex
	of map[Subject]map[*waiter]bool
}

// waiter is woken after each change of its subject since it was made; changes that come
// before it has looked wake it once. Who has made it looks only then, so that no change
// comes in between, and must drop it.
type waiter struct {
	Wake chan struct{}
	all  *waiters
	on   Subject
}

func (w *waiters) Add(on Subject) *waiter {
	one := &waiter{Wake: make(chan struct{}, 1), all: w, on: on}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[Subject]map[*waiter]bool{}
	}
	if w.of[on] == nil {
		w.of[on] = map[*waiter]bool{}
	}
	w.of[on][one] = true
	return one
}

func (one *waiter) Drop() {
	w := one.all
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.of[one.on], one); len(w.of[one.on]) == 0 {
		delete(w.of, one.on)
	}
}

// idle says that nobody waits.
func (w *waiters) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.of) == 0
}

func (w *waiters) notify(about map[Subject]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for on := range about {
		for one := range w.of[on] {
			Nudge(one.Wake)
		}
	}
}

// affectsShown says whether every federation with a member on a cluster may look different
// after a change of a key: its session, its registration, and what it is told of itself.
func affectsShown(k record.Kind) bool {
	return k == record.KindSession || k == record.KindCluster || k == record.KindDesiredCluster
}

// notifyWaiters wakes who waits for one of the federations, for one on one of the
// clusters, or for a service name that a federation has had before. It needs mu, held for
// writing: who looks then sees the change.
func (s *State) notifyWaiters(federations, clusters map[string]bool, names []string) {
	if s.Waiters.idle() {
		return
	}
	about := map[Subject]bool{}
	for _, name := range names {
		about[Subject{Service: name}] = true
	}
	add := func(uid string) {
		if about[Subject{federation: uid}] {
			return
		}
		about[Subject{federation: uid}] = true
		if f := s.view.Federations[uid].Rec; f != nil {
			for _, m := range slices.Concat(f.Members, f.Leaving) {
				about[Subject{Service: m.ServiceName}] = true
			}
		}
	}
	for uid := range federations {
		add(uid)
	}
	for cluster := range clusters {
		for uid := range s.view.OnCluster[cluster] {
			add(uid)
		}
		// Whose token is held there, without a member there any more.
		for _, uid := range s.view.WithTokens([]string{cluster}) {
			add(uid)
		}
	}
	s.Waiters.notify(about)
}

// Follow calls look now and after every change of a federation, until it is done or
// fails. When wait has passed look is called once more, with over; who is not done
// then goes on until ctx ends. What is waited for was accepted: an end of ctx is
// store.ErrUnknownOutcome.
func (s *State) Follow(ctx context.Context, uid string, wait time.Duration, look func(over bool) (done bool, err error)) error {
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	w := s.Waiters.Add(Subject{federation: uid})
	defer w.Drop()
	over := false
	for {
		if done, err := look(over); err != nil || done {
			return err
		}
		select {
		case <-w.Wake:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return fmt.Errorf("%w: it was accepted: %w", store.ErrUnknownOutcome, context.Cause(ctx))
		}
	}
}

// Nudge wakes the reader of a channel that has room for one signal.
func Nudge(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

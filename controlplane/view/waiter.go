package view

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/internal/signal"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Subject is what a waiter waits for: changes of one federation, or of every federation that
// has or gets a member of a name. One of the two fields is empty.
type Subject struct{ federation, Service string }

// waiters wakes each waiter when the view of its federation changes. With a thousand waiters
// for a thousand federations, one change wakes only one of them.
type waiters struct {
	mu sync.Mutex
	of map[Subject]map[*waiter]bool
}

// waiter is woken after each change of its subject since it was made; several changes before it
// looks wake it once. The caller makes it first and looks then, so that no change comes in
// between, and must drop it.
type waiter struct {
	Wake signal.Signal
	all  *waiters
	on   Subject
}

func (w *waiters) Add(on Subject) *waiter {
	one := &waiter{Wake: signal.New(), all: w, on: on}
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

// idle says that there are no waiters.
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
			one.Wake.Send()
		}
	}
}

// affectsShown says whether a change of such a key can change the view of every federation on
// the cluster: its session, its registration, and its desired state.
func affectsShown(k record.Kind) bool {
	return k == record.KindSession || k == record.KindCluster || k == record.KindDesiredCluster
}

// notifyWaiters wakes the waiters for one of the federations, for a federation on one of the
// clusters, or for a service name that a federation had before. The caller holds mu for
// writing, so a woken waiter sees the change.
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
		if f := s.view.Federations.m[uid].Rec; f != nil {
			for _, m := range slices.Concat(f.Members, f.Leaving) {
				about[Subject{Service: m.ServiceName}] = true
			}
		}
	}
	for uid := range federations {
		add(uid)
	}
	for cluster := range clusters {
		for uid := range s.view.OnCluster.Of(cluster) {
			add(uid)
		}
		// A federation may have its token there without a member.
		for _, uid := range s.view.WithTokens([]string{cluster}) {
			add(uid)
		}
	}
	s.Waiters.notify(about)
}

// Follow calls look now and after every change of a federation, until look is done or fails.
// When wait has passed it calls look once more, with over set; if look is still not done,
// Follow goes on until ctx ends. The request was accepted by then: an end of ctx is
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

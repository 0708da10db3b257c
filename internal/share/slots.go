package share

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrFull says that all slots are taken, and stayed so for as long as may be waited.
var ErrFull = errors.New("all slots are taken")

// Tenant takes slots.
type Tenant struct {
	Account, Federation string
	// Weights are those of the account, and of the federation among its account's; 0 counts as 1.
	Weights Weights
}

// Weights of a tenant.
type Weights struct{ Account, Federation float64 }

// Slots are shared by weighted dominant resource fairness (Ghodsi et al., NSDI 2011), which with one
// resource is weighted max-min fairness: a free slot goes to the waiting account that holds the
// fewest, divided by its weight, and of its federations to the one that holds the fewest. The last ones
// (Kept) go to accounts that hold none; else no slot is free while a request waits. So another account's
// first request gets a slot that is kept or, when those are taken, the next that is given back, however
// many of the first one's wait, and however long each takes. It is safe for concurrent use.
type Slots struct {
	// all is how many there are, and most how many requests wait at most.
	all, most int

	mu   sync.Mutex
	held Held
	// waiting are in the order in which they came, and waits how many of them each account has.
	waiting []*waiter
	waits   map[string]int
}

// waiter is a request that waits.
type waiter struct {
	tenant Tenant
	// answer gets nil with a slot, or ErrFull.
	answer chan error
}

// New makes n slots, for which at most so many requests wait.
func New(n, waiting int) *Slots {
	return &Slots{all: n, most: waiting, waits: map[string]int{}}
}

// Take takes a slot, and waits for one for some time. It fails with ErrFull, or with the cause of ctx.
// give returns the slot, once.
func (s *Slots) Take(ctx context.Context, t Tenant, wait time.Duration) (give func(), err error) {
	s.mu.Lock()
	if s.held.May(t, s.all) {
		defer s.mu.Unlock()
		s.held.Add(t, 1)
		return s.giver(t), nil
	}
	if wait <= 0 || !s.space(t) {
		s.mu.Unlock()
		return nil, ErrFull
	}
	w := &waiter{tenant: t, answer: make(chan error, 1)}
	s.waiting = append(s.waiting, w)
	s.waits[t.Account]++
	s.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case err = <-w.answer:
	case <-timer.C:
		err = s.leave(w, ErrFull)
	case <-ctx.Done():
		err = s.leave(w, context.Cause(ctx))
	}
	if err != nil {
		return nil, err
	}
	return s.giver(t), nil
}

// leave takes a waiter away. It is nil when the waiter has got a slot meanwhile.
func (s *Slots) leave(w *waiter, why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.Index(s.waiting, w); at >= 0 {
		s.remove(at)
		return why
	}
	return <-w.answer
}

// space says whether one more request of a tenant may wait. When too many wait, the account with the
// most of them, divided by its weight, loses its newest (longest queue drop: Suter et al., IEEE
// INFOCOM 1998). It needs mu.
func (s *Slots) space(t Tenant) bool {
	if len(s.waiting) < s.most {
		return true
	}
	longest, at := 0.0, -1
	for i, w := range s.waiting {
		if n := s.queued(w.tenant, 0); n >= longest {
			longest, at = n, i
		}
	}
	if at < 0 || s.queued(t, 1) >= longest {
		return false
	}
	w := s.waiting[at]
	s.remove(at)
	w.answer <- ErrFull
	return true
}

// queued is how many requests of a tenant's account wait, with more of them, divided by its weight. It
// needs mu.
func (s *Slots) queued(t Tenant, more int) float64 {
	return float64(s.waits[t.Account]+more) / weight(t.Weights.Account)
}

func (s *Slots) giver(t Tenant) func() {
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held.Add(t, -1)
		for s.serve() {
		}
	})
}

// serve gives a free slot to the waiter with the smallest share, of those that may have it. It is false when there
// is none. It needs mu.
func (s *Slots) serve() bool {
	next := -1
	for i, w := range s.waiting {
		if s.held.May(w.tenant, s.all) && (next < 0 || s.held.Compare(w.tenant, s.waiting[next].tenant) < 0) {
			next = i
		}
	}
	if next < 0 {
		return false
	}
	w := s.waiting[next]
	s.held.Add(w.tenant, 1)
	s.remove(next)
	w.answer <- nil
	return true
}

// remove takes a waiter out of the list. It needs mu.
func (s *Slots) remove(at int) {
	account := s.waiting[at].tenant.Account
	s.waiting = slices.Delete(s.waiting, at, at+1)
	if s.waits[account]--; s.waits[account] == 0 {
		delete(s.waits, account)
	}
}

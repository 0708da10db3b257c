package share

import (
	"cmp"
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
// fewest, divided by its weight, and of its federations to the one that holds the fewest. No slot is
// free while a request waits. So an account alone has all slots, and another one's first request gets
// the next slot that is given back, however many of the first one's wait. It is safe for concurrent
// use.
type Slots struct {
	// most is how many requests wait at most.
	most int

	mu       sync.Mutex
	free     int
	accounts map[string]*usage
	// waiting are in the order in which they came.
	waiting []*waiter
}

// usage is what an account has.
type usage struct {
	held, waiting int
	federations   map[string]int
}

// waiter is a request that waits.
type waiter struct {
	tenant Tenant
	// answer gets nil with a slot, or ErrFull.
	answer chan error
}

// New makes n slots, for which at most so many requests wait.
func New(n, waiting int) *Slots {
	return &Slots{most: waiting, free: n, accounts: map[string]*usage{}}
}

// Take takes a slot, and waits for one for some time. It fails with ErrFull, or with the cause of ctx.
// give returns the slot, once.
func (s *Slots) Take(ctx context.Context, t Tenant, wait time.Duration) (give func(), err error) {
	s.mu.Lock()
	if s.free > 0 {
		defer s.mu.Unlock()
		s.grant(t)
		return s.giver(t), nil
	}
	if wait <= 0 || !s.space(t) {
		s.mu.Unlock()
		return nil, ErrFull
	}
	w := &waiter{tenant: t, answer: make(chan error, 1)}
	s.waiting = append(s.waiting, w)
	s.usage(t.Account).waiting++
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
		if n := s.waits(w.tenant, 0); n >= longest {
			longest, at = n, i
		}
	}
	if at < 0 || s.waits(t, 1) >= longest {
		return false
	}
	w := s.waiting[at]
	s.remove(at)
	w.answer <- ErrFull
	return true
}

// waits is how many requests of a tenant's account wait, with more of them, divided by its weight. It
// needs mu.
func (s *Slots) waits(t Tenant, more int) float64 {
	n := more
	if u := s.accounts[t.Account]; u != nil {
		n += u.waiting
	}
	return float64(n) / weight(t.Weights.Account)
}

func (s *Slots) giver(t Tenant) func() {
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free++
		u := s.accounts[t.Account]
		u.held--
		if u.federations[t.Federation]--; u.federations[t.Federation] == 0 {
			delete(u.federations, t.Federation)
		}
		s.forget(t.Account)
		s.serve()
	})
}

// serve gives a free slot to the waiter with the smallest share. It needs mu.
func (s *Slots) serve() {
	if len(s.waiting) == 0 {
		return
	}
	next := 0
	for i, w := range s.waiting {
		if s.compare(w.tenant, s.waiting[next].tenant) < 0 {
			next = i
		}
	}
	w := s.waiting[next]
	s.grant(w.tenant)
	s.remove(next)
	w.answer <- nil
}

// compare orders tenants by their shares. It needs mu.
func (s *Slots) compare(a, b Tenant) int {
	return cmp.Or(
		cmp.Compare(float64(s.usage(a.Account).held)/weight(a.Weights.Account), float64(s.usage(b.Account).held)/weight(b.Weights.Account)),
		cmp.Compare(
			float64(s.usage(a.Account).federations[a.Federation])/weight(a.Weights.Federation),
			float64(s.usage(b.Account).federations[b.Federation])/weight(b.Weights.Federation),
		),
	)
}

// grant needs mu.
func (s *Slots) grant(t Tenant) {
	s.free--
	u := s.usage(t.Account)
	u.held++
	u.federations[t.Federation]++
}

// remove takes a waiter out of the list. It needs mu.
func (s *Slots) remove(at int) {
	account := s.waiting[at].tenant.Account
	s.waiting = slices.Delete(s.waiting, at, at+1)
	s.usage(account).waiting--
	s.forget(account)
}

// usage needs mu.
func (s *Slots) usage(account string) *usage {
	u := s.accounts[account]
	if u == nil {
		u = &usage{federations: map[string]int{}}
		s.accounts[account] = u
	}
	return u
}

// forget drops an account that has nothing any more. It needs mu.
func (s *Slots) forget(account string) {
	if u := s.accounts[account]; u.held == 0 && u.waiting == 0 {
		delete(s.accounts, account)
	}
}

func weight(w float64) float64 {
	if w > 0 {
		return w
	}
	return 1
}

// Idle says whether no slot is taken.
func (s *Slots) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accounts) == 0
}

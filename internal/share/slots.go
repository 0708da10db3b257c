package share

import (
	"errors"
	"sync"
)

var (
	// ErrFull says that all slots are taken.
	ErrFull = errors.New("all slots are taken")
	// ErrShare says that the account has as many as it may while so few are free.
	ErrShare = errors.New("the account has its share of the slots")
)

// Slots are shared by one rule: an account takes one only while it holds fewer than are free (the
// dynamic threshold of Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998). A
// holder cannot be made to give a slot back and may hold it for minutes, so that capacity is kept
// free for accounts that come later: an account alone holds half, and of n busy ones each comes to
// hold its part of n+1. It is safe for concurrent use.
type Slots struct {
	mu   sync.Mutex
	free int
	held map[string]int
}

// New makes n slots.
func New(n int) *Slots { return &Slots{free: n, held: map[string]int{}} }

// Take takes a slot for an account, or answers ErrFull or ErrShare. give returns it, once.
func (s *Slots) Take(account string) (give func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.free == 0:
		return nil, ErrFull
	case s.held[account] >= s.free:
		return nil, ErrShare
	}
	s.free--
	s.held[account]++
	return sync.OnceFunc(func() { s.give(account) }), nil
}

func (s *Slots) give(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.held[account]--; s.held[account] == 0 {
		delete(s.held, account)
	}
}

// Idle says whether no slot is taken.
func (s *Slots) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) == 0
}

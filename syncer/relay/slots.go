package relay

import (
	"net/http"
	"sync"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// slots bounds how many requests of a kind are under way, and shares the slots among
// accounts: one takes a slot only while it holds fewer than are free (the dynamic threshold
// of Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998). What is under way
// cannot be taken back and may last for minutes, so that the room of those who come later is
// kept free: an account alone holds half, and of n busy ones each comes to hold its part of n+1.
type slots struct {
	mu   sync.Mutex
	free int
	held map[string]int
}

func newSlots(n int) *slots { return &slots{free: n, held: map[string]int{}} }

// take gives a slot to an account, or says why not. give returns it.
func (s *slots) take(account string) (give func(), no *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch held := s.held[account]; {
	case s.free == 0:
		return nil, &refusal{http.StatusServiceUnavailable, v1.RelayBusy, "this cluster is asked as much as it answers at a time"}
	case held >= s.free:
		return nil, &refusal{http.StatusServiceUnavailable, v1.RelayBusy,
			"this cluster answers as much for this account as one may ask at a time; the rest is for others"}
	}
	s.free--
	s.held[account]++
	return func() { s.give(account) }, nil
}

func (s *slots) give(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.held[account]--; s.held[account] == 0 {
		delete(s.held, account)
	}
}

// accountOf is who asks. A control plane that does not say yet shares by services.
func accountOf(r *http.Request) string {
	if account := r.Header.Get(v1.RelayAccountHeader); account != "" {
		return account
	}
	return "service " + r.PathValue("uid")
}

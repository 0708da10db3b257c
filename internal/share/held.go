package share

import (
	"cmp"
	"maps"
)

// Held counts the slots that tenants hold. The zero value is empty. It is not safe for concurrent
// use.
type Held struct {
	total    int
	accounts map[string]*account
}

// account is what an account and its federations hold.
type account struct {
	slots       int
	federations map[string]int
}

// Total is how many slots are held.
func (h *Held) Total() int { return h.total }

// Of is how many slots an account holds.
func (h *Held) Of(name string) int {
	if a := h.accounts[name]; a != nil {
		return a.slots
	}
	return 0
}

// Kept is how many of n slots are kept for accounts that hold none: an eighth, and one at least of two or more.
// Else who fills all slots with what does not end keeps the others out.
func Kept(n int) int {
	if n < 2 {
		return 0
	}
	return max(1, n/8)
}

// May says whether a tenant may have one more of n slots.
func (h *Held) May(t Tenant, n int) bool {
	free := n - h.total
	return free > Kept(n) || free > 0 && h.Of(t.Account) == 0
}

// Clone is a copy.
func (h *Held) Clone() Held {
	out := Held{total: h.total, accounts: make(map[string]*account, len(h.accounts))}
	for name, a := range h.accounts {
		out.accounts[name] = &account{slots: a.slots, federations: maps.Clone(a.federations)}
	}
	return out
}

// Add adds n to the slots that a tenant holds; a negative n gives slots back.
func (h *Held) Add(t Tenant, n int) {
	if h.accounts == nil {
		h.accounts = map[string]*account{}
	}
	a := h.accounts[t.Account]
	if a == nil {
		a = &account{federations: map[string]int{}}
		h.accounts[t.Account] = a
	}
	h.total += n
	a.slots += n
	if a.federations[t.Federation] += n; a.federations[t.Federation] == 0 {
		delete(a.federations, t.Federation)
	}
	if a.slots == 0 {
		delete(h.accounts, t.Account)
	}
}

// Compare orders tenants by their shares: the smallest comes first.
func (h *Held) Compare(a, b Tenant) int {
	return cmp.Or(
		cmp.Compare(float64(h.Of(a.Account))/weight(a.Weights.Account), float64(h.Of(b.Account))/weight(b.Weights.Account)),
		cmp.Compare(float64(h.OfFederation(a))/weight(a.Weights.Federation), float64(h.OfFederation(b))/weight(b.Weights.Federation)),
	)
}

// OfFederation is how many slots of its account the federation of a tenant holds.
func (h *Held) OfFederation(t Tenant) int {
	if a := h.accounts[t.Account]; a != nil {
		return a.federations[t.Federation]
	}
	return 0
}

func weight(w float64) float64 {
	if w > 0 {
		return w
	}
	return 1
}

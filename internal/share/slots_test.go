package share_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/internal/share"
)

// requests are those of some tenants for slots, in virtual time.
type requests struct {
	t     *testing.T
	slots *share.Slots
	// order are the accounts in the order in which they got a slot.
	order []string
	held  map[string][]func()
	full  map[string]int
	got   chan func()
}

func newRequests(t *testing.T, n, waiting int) *requests {
	return &requests{t: t, slots: share.New(n, waiting), held: map[string][]func(){}, full: map[string]int{}, got: make(chan func())}
}

// ask asks for a slot, and waits until it has one or waits for it.
func (r *requests) ask(tenant share.Tenant) {
	r.t.Helper()
	go func() {
		give, err := r.slots.Take(r.t.Context(), tenant, time.Hour)
		r.got <- func() {
			switch {
			case err == nil:
				r.order = append(r.order, tenant.Account)
				r.held[tenant.Account] = append(r.held[tenant.Account], give)
			case errors.Is(err, share.ErrFull):
				r.full[tenant.Account]++
			case r.t.Context().Err() == nil:
				r.t.Error(err)
			}
		}
	}()
	r.settle()
}

// settle enters what was answered.
func (r *requests) settle() {
	for {
		synctest.Wait()
		select {
		case enter := <-r.got:
			enter()
		default:
			return
		}
	}
}

// end ends one request of an account.
func (r *requests) end(account string) {
	h := r.held[account]
	r.held[account] = h[1:]
	h[0]()
	h[0]() // once
	r.settle()
}

// drain lets all requests end.
func (r *requests) drain() {
	for more := true; more; {
		more = false
		for account, held := range r.held {
			if len(held) > 0 {
				r.end(account)
				more = true
			}
		}
	}
	if !r.slots.Idle() {
		r.t.Error("something is left")
	}
}

// A user alone has all slots but those that are kept for others. However many of his requests wait, the first one
// of another user gets one of those at once or, when they are taken, the first slot that is given back; and what is
// given back is shared by weight from then on.
func TestAFloodDelaysAnothersFirstByOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, kept = 16, 2
		r := newRequests(t, all, 1000)
		for range 500 {
			r.ask(share.Tenant{Account: "flood"})
		}
		if got := len(r.held["flood"]); got != all-kept {
			t.Errorf("alone it has %d of %d slots", got, all)
		}
		for i := range 5 {
			account := fmt.Sprint("user ", i)
			r.ask(share.Tenant{Account: account})
			if i >= kept {
				r.end("flood")
			}
			if len(r.held[account]) != 1 {
				t.Errorf("%s did not get a slot that was kept, or the first that was given back", account)
			}
		}
		// Those that are kept are kept again, however many wait of who has one.
		r.ask(share.Tenant{Account: "user 0"})
		for range kept {
			r.end("flood")
		}
		r.ask(share.Tenant{Account: "user 5"})
		if len(r.held["user 0"]) != 1 || len(r.held["user 5"]) != 1 {
			t.Errorf("%d and %d slots of the kept are taken", len(r.held["user 0"]), len(r.held["user 5"]))
		}
		r.drain()
	})
}

// Who gives his last slot back is like one who had none: his next request, and another's, get what is free.
func TestWhoGivesHisLastSlotBackGetsOneThatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRequests(t, 16, 1000)
		for range 20 {
			r.ask(share.Tenant{Account: "flood"})
		}
		for range 3 {
			r.ask(share.Tenant{Account: "a"})
		}
		r.end("a")
		if len(r.held["a"]) != 1 {
			t.Errorf("it has %d", len(r.held["a"]))
		}
		r.drain()
	})
}

// Users that always want more have their weights' parts of the slots once each slot was given back, within
// one slot for each of the others, and so have the federations of each.
func TestSlotsAreSharedByWeight(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(0.5, 8), 2, 4).Draw(rt, "weights")
		of := rapid.SliceOfN(rapid.Float64Range(0.5, 4), 2, 3).Draw(rt, "federations")
		all := rapid.IntRange(16, 32).Draw(rt, "slots")
		var held [][]int
		synctest.Test(t, func(t *testing.T) { held = shared(t, weights, of, all) })
		for i, w := range weights {
			mine := sum(held[i])
			if want := float64(all-share.Kept(all)) * w / sum(weights); math.Abs(float64(mine)-want) > float64(len(weights)) {
				rt.Errorf("account %d has %d of %d slots, want %.1f", i, mine, all, want)
			}
			for f, w := range of {
				if want := float64(mine) * w / sum(of); math.Abs(float64(held[i][f])-want) > float64(len(of)) {
					rt.Errorf("federation %d of account %d has %d of its %d slots, want %.1f", f, i, held[i][f], mine, want)
				}
			}
		}
	})
}

func sum[N int | float64](list []N) (s N) {
	for _, n := range list {
		s += n
	}
	return s
}

// shared has each federation of each account ask for more slots than there are, and gives each slot back
// twice, the oldest first. It returns what each then holds.
func shared(t *testing.T, weights, of []float64, all int) [][]int {
	slots, held := share.New(all, 1<<20), make([][]int, len(weights))
	type holder struct {
		account, federation int
		give                func()
	}
	got := make(chan holder, 1<<20)
	for i, account := range weights {
		held[i] = make([]int, len(of))
		for f, federation := range of {
			for range 3 * all {
				go func() {
					give, err := slots.Take(t.Context(), share.Tenant{
						Account: fmt.Sprint(i), Federation: fmt.Sprint(f), Weights: share.Weights{Account: account, Federation: federation},
					}, time.Hour)
					if err == nil {
						got <- holder{i, f, give}
					}
				}()
			}
			synctest.Wait() // the first one alone has all slots that are not kept
		}
	}
	for range 2 * all {
		(<-got).give()
		synctest.Wait()
	}
	for range all - share.Kept(all) {
		h := <-got
		held[h.account][h.federation]++
	}
	return held
}

// When too many wait, the account with the most of them loses its newest one.
func TestTheLongestQueueIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRequests(t, 1, 4)
		for range 7 {
			r.ask(share.Tenant{Account: "flood"})
		}
		if r.full["flood"] != 2 {
			t.Errorf("%v were refused, want 2 of the flood", r.full)
		}
		r.ask(share.Tenant{Account: "other"})
		r.ask(share.Tenant{Account: "other"})
		if r.full["flood"] != 4 || r.full["other"] != 0 {
			t.Errorf("%v were refused, want 4 of the flood", r.full)
		}
		r.ask(share.Tenant{Account: "other"})
		if r.full["other"] != 1 {
			t.Errorf("%v were refused: of equal queues none is cut", r.full)
		}
		r.drain()
	})
}

// A request that does not wait, waits in vain, or goes away has no slot and leaves nothing.
func TestARequestThatGoesAwayLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := share.New(1, 10)
		give, err := s.Take(t.Context(), share.Tenant{Account: "a"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Take(t.Context(), share.Tenant{Account: "b"}, 0); !errors.Is(err, share.ErrFull) {
			t.Error(err)
		}
		began := time.Now()
		if _, err := s.Take(t.Context(), share.Tenant{Account: "b"}, time.Minute); !errors.Is(err, share.ErrFull) || time.Since(began) != time.Minute {
			t.Error(err, time.Since(began))
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		if _, err := s.Take(ctx, share.Tenant{Account: "b"}, time.Minute); !errors.Is(err, gone) {
			t.Error(err)
		}
		give()
		if !s.Idle() {
			t.Error("something is left")
		}
	})
}

package share_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/internal/share"
)

func TestSlotsAreNeitherLostNorMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.IntRange(1, 20).Draw(t, "slots")
		s := share.New(all)
		held := map[string][]func(){}
		under := func() (n int) {
			for _, h := range held {
				n += len(h)
			}
			return n
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			account := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "account")
			if h := held[account]; len(h) > 0 && rapid.Bool().Draw(t, "give") {
				h[0]()
				h[0]() // once
				held[account] = h[1:]
				continue
			}
			free, mine := all-under(), len(held[account])
			give, err := s.Take(account)
			want := error(nil)
			switch {
			case free == 0:
				want = share.ErrFull
			case mine >= free:
				want = share.ErrShare
			}
			if !errors.Is(err, want) {
				t.Fatalf("with %d free and %d held: %v, want %v", free, mine, err, want)
			}
			if err == nil {
				held[account] = append(held[account], give)
			}
			if len(held[account]) > (all+1)/2 {
				t.Fatalf("one account holds %d of %d", len(held[account]), all)
			}
			if s.Idle() != (under() == 0) {
				t.Fatalf("idle: %v with %d held", s.Idle(), under())
			}
		}
	})
}

package clock

import (
	"sync"
	"testing"
	"time"
)

func TestAnOrderedClockGivesNoTimeTwice(t *testing.T) {
	t.Parallel()
	below := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := Ordered(func() time.Time { return below })
	var mu sync.Mutex
	seen := map[time.Time]bool{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				at := now()
				mu.Lock()
				seen[at] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != 800 || !now().After(below) || now().Sub(below) > time.Microsecond {
		t.Errorf("%d times of 800, the last is %s ahead", len(seen), now().Sub(below))
	}
	for _, step := range []time.Duration{time.Second, -time.Hour, time.Nanosecond} {
		below = below.Add(step)
		if at := now(); at.Before(below) || at.Sub(below) > time.Microsecond {
			t.Errorf("after a step of %s it is %s off", step, at.Sub(below))
		}
	}
}

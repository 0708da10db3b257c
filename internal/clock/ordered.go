package clock

import (
	"sync"
	"time"
)

// orderedReach is how far an ordered clock goes ahead of the one below it at most. A clock
// that was set back by more is followed.
const orderedReach = time.Second

// Ordered is a clock of which the later of two calls has the later time, also while the
// one below it stands: what began after something else had ended can be told by it. Below
// it is a clock of coarse steps, or one of virtual time, which stands while anything is
// done.
func Ordered(below func() time.Time) func() time.Time {
	var mu sync.Mutex
	var last time.Time
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		t := below()
		if ahead := last.Sub(t); ahead >= 0 && ahead < orderedReach {
			t = last.Add(1)
		}
		last = t
		return t
	}
}

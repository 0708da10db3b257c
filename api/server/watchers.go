package server

import (
	"fmt"
	"sync"

	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// watchers counts the watches of each caller.
type watchers struct {
	max  int
	mu   sync.Mutex
	open map[string]int
}

func newWatchers(most int) *watchers { return &watchers{max: most, open: map[string]int{}} }

// enter counts one more watch of a caller; leave must be called when it ends.
func (w *watchers) enter(caller string) (leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[caller] >= w.max {
		return nil, &fault.Error{
			Code:       fault.CodeExhausted,
			Message:    fmt.Sprintf("there are %d watches of this caller already; end one of them, or read without ?watch=true", w.max),
			RetryAfter: pingEvery,
		}
	}
	w.open[caller]++
	return func() { w.leave(caller) }, nil
}

func (w *watchers) leave(caller string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[caller]--; w.open[caller] == 0 {
		delete(w.open, caller)
	}
}

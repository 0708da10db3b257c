package controlplane

import (
	"context"
	"sync"
)

// turns lets one change of a federation at a time be rendered here: of many that
// come at once all but one would be rendered in vain. It is a courtesy only; what
// makes changes safe is the compare of the federation's record.
type turns struct {
	mu    sync.Mutex
	taken map[string]chan struct{}
}

// take waits for the turn of a federation; the function that it returns ends it.
func (t *turns) take(ctx context.Context, uid string) (func(), error) {
	for {
		t.mu.Lock()
		if t.taken == nil {
			t.taken = map[string]chan struct{}{}
		}
		other, busy := t.taken[uid]
		if !busy {
			mine := make(chan struct{})
			t.taken[uid] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.taken, uid)
				t.mu.Unlock()
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

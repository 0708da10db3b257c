package gate

import (
	"context"
	"sync"
)

// KeyedMutex is one mutex per key. Its zero value is ready.
type KeyedMutex struct {
	mu    sync.Mutex
	taken map[string]chan struct{}
}

// Lock waits until the key is free and takes it. The returned function unlocks it.
func (t *KeyedMutex) Lock(ctx context.Context, uid string) (func(), error) {
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

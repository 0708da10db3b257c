package store_test

import (
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// Of many writes that begin in the same moment no more begin than fit, and what was
// written counts once the members say so, and no longer twice.
func TestWritesThatBeginTogetherAreHeldAgainstTheFreeSpaceTogether(t *testing.T) {
	server := storetest.Start(t, embedded.Config{Quota: quota})
	s := storetest.Open(t, store.Config{Endpoints: []string{server.Endpoint()}})
	w, _ := watchSpace(t, s, store.SpaceConfig{})
	until(t, func() bool { return w.Space().Level == store.SpaceOK })
	_, free, ok := w.Reserve(quota)
	if ok || free <= 0 || free >= quota {
		t.Fatalf("%d bytes are free of %d, and a write of all is taken: %v", free, quota, ok)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var held []func()
	for range 20 {
		wg.Go(func() {
			if release, _, ok := w.Reserve(free / 5); ok {
				mu.Lock()
				held = append(held, release)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(held) != 4 { // a tenth is for etcd itself
		t.Errorf("%d fifths of the free space were given away", len(held))
	}
	for _, release := range held {
		release()
	}
	until(t, func() bool {
		release, _, ok := w.Reserve(free / 2)
		if ok {
			release()
		}
		return ok
	})
}

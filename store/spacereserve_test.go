package store_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
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

// TestAWriteThatDoesNotFitFitsOnceHistoryIsGivenUp: etcd was not short of space, so its history
// stayed, and the same write was refused for ever. And etcd counts what a compaction freed only after
// later writes, so that it was refused as long as nobody else wrote.
func TestAWriteThatDoesNotFitFitsOnceHistoryIsGivenUp(t *testing.T) {
	inVirtualTime(t, embedded.Config{Quota: quota}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{})
		w, steps := watchSpace(t, s, store.SpaceConfig{Retention: brief})
		until(t, func() bool { return w.Space().Level == store.SpaceOK })
		for i := range 90 { // 9 MiB of history of one key
			if _, err := s.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
				tx.PutBytes("/t/one", append(bytes.Repeat([]byte("x"), 100<<10), byte(i)))
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
		}
		until(t, func() bool { return w.Space().Worst.InUse > quota/2 })
		const large = quota / 3
		if _, free, ok := w.Reserve(large); ok || w.Space().Tight() {
			t.Fatalf("%d bytes fit beside %d, level %s", free, large, w.Space().Level)
		}
		until(t, func() bool { // and nobody writes meanwhile
			release, _, ok := w.Reserve(large)
			if ok {
				release()
			}
			return ok
		})
		steps.await(t, "compact done")
	})
}

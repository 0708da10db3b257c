package invariants

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// GuardLive is Guard for tests whose etcd forgets its history: it checks each
// revision while it is made. A compaction that overtakes it fails the test.
func GuardLive(t testing.TB, endpoint string, opts Options) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s, err := store.Open(ctx, opts.reach(store.Config{Endpoints: strings.Split(endpoint, ","), Deadline: guardTimeout}))
	if err != nil {
		cancel()
		t.Fatalf("the promises cannot be checked: %v", err)
	}
	c, err := newChecker(opts)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	ended := make(chan error, 1)
	var group sync.WaitGroup
	group.Go(func() {
		ended <- s.History(ctx, record.Root, 1, math.MaxInt64, func(revision int64, events []store.Event) error {
			mu.Lock()
			defer mu.Unlock()
			c.step(revision, events)
			return nil
		})
	})
	t.Cleanup(func() {
		t.Helper()
		if err := caughtUp(ctx, s, c, &mu, ended); err != nil {
			t.Errorf("the promises could not be checked: %v", err)
		}
		cancel()
		group.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		c.report.tell(t, opts.Breaks)
	})
}

// caughtUp waits until the checker has seen the store as it is, and finishes it.
func caughtUp(ctx context.Context, s *store.Store, c *checker, mu *sync.Mutex, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	for {
		present, last, err := s.List(ctx, record.Root)
		if err != nil {
			return err
		}
		mu.Lock()
		err = c.sameAs(present)
		if err == nil {
			c.finish(last)
		}
		mu.Unlock()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case err := <-ended:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

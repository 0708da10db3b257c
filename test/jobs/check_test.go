package jobs_test

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/test/invariants"
)

const (
	// checkEvery is the pause between two looks at what was written since.
	checkEvery = 500 * time.Millisecond
	// forgetFrom is how many jobs a run has whose history is compacted behind the check:
	// the whole of a long one does not fit into etcd.
	forgetFrom = 5000
	// forgetAfter is how long that history stays: a list of a long store must be
	// read before its revision is compacted.
	forgetAfter = time.Minute
	// checkTimeout bounds the last look.
	checkTimeout = 5 * time.Minute
)

// check replays what is written to one etcd against the promises, while it is written.
type check struct {
	p      *proof
	store  *store.Store
	replay *invariants.Replay
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// seen is a revision up to which everything was checked by then.
type seen struct {
	revision int64
	when     time.Time
}

// checks begins with an etcd as it is now: empty, or just restored.
func (p *proof) checks(s *store.Store, restored bool) *check {
	p.t.Helper()
	replay, err := invariants.NewReplay(invariants.Options{Fenced: true})
	if err == nil && restored {
		err = replay.Stand(p.t.Context(), s)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{p.Etcd}, Logger: zap.NewNop()})
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(p.t.Context())
	c := &check{p: p, store: s, replay: replay, stop: stop}
	c.done.Go(func() {
		defer func() { _ = etcd.Close() }()
		var checked []seen
		for last := int64(0); ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(checkEvery):
			}
			at, err := replay.Advance(ctx, s)
			if err != nil || at == last {
				continue // etcd may be away; Finish tells what is wrong
			}
			if last = at; p.jobs < forgetFrom {
				continue
			}
			checked = append(checked, seen{at, time.Now()})
			old := 0
			for old < len(checked) && time.Since(checked[old].when) > forgetAfter {
				old++
			}
			if old > 0 {
				_, _ = etcd.Compact(ctx, checked[old-1].revision) // or the next time
				checked = checked[old:]
			}
		}
	})
	return c
}

// finish checks the rest, when this etcd has no writers any more.
func (c *check) finish() {
	c.p.t.Helper()
	c.stop()
	c.done.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.p.t.Context()), checkTimeout)
	defer cancel()
	report, err := c.replay.Finish(ctx, c.store)
	if err != nil {
		c.p.t.Errorf("the promises could not be checked: %v", err)
		return
	}
	report.Tell(c.p.t)
}

package jobs

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// together is how many jobs of waiting one revision has.
const together = 100

// waiting is a Controller that reads, of a store in which some jobs of owner wait.
func waiting(t *testing.T, jobs int) *Controller {
	t.Helper()
	st := virtual.Open(t)
	state := view.NewState(st.NewMirror(store.MirrorConfig{Prefixes: []string{record.Root}}), time.Now)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = state.Mirror.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	g, err := gate.New(gate.Config{Store: st, State: state, Now: time.Now, Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	federation := record.NewUID()
	for left := jobs; left > 0; {
		some := min(left, together)
		left -= some
		if _, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			for range some {
				id := record.NewUID()
				tx.Put(record.JobKey(id), record.Job{
					V: record.Version, Job: id, Federation: federation, GroupID: "group", Owner: "owner", Cluster: "a", Service: "service",
					RequestID: record.NewUID(), State: record.JobQueued, AcceptedAt: record.At(time.Now()), ChangedAt: record.At(time.Now()),
				})
			}
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
	}
	c := &Controller{store: st, state: state, gate: g}
	if err := g.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	state.Read(func(v *view.View) {
		if v.Jobs.Order.Len() != jobs {
			t.Fatalf("%d jobs of %d are seen", v.Jobs.Order.Len(), jobs)
		}
	})
	return c
}

// begins is how many bytes a watch allocates until it tells the first job or waits for one.
func begins(t *testing.T, watch func(ctx context.Context, told error) error) int64 {
	t.Helper()
	told, least := errors.New("the first is told"), int64(math.MaxInt64)
	for range 5 { // others allocate, too
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		before := allocated()
		go func() { ended <- watch(ctx, told) }()
		<-time.After(time.Second) // virtual: it has asked the store
		synctest.Wait()
		least = min(least, allocated()-before)
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, told) && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	return least
}

func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// TestAWatchHoldsAllJobsThatWait: a million may wait. Each was made anew with why it waits, before the first was told.
func TestAWatchHoldsAllJobsThatWait(t *testing.T) {
	const few, many = 1000, 6000
	admin := identity.Caller{Subject: identity.Admin, Administrator: true}
	all := func(q Query) func(*Controller, context.Context, error) error {
		return func(c *Controller, ctx context.Context, told error) error {
			return c.WatchAll(ctx, admin, q, 0, func(*Job, int64) error { return told })
		}
	}
	synctest.Test(t, func(t *testing.T) {
		one, other := waiting(t, few), waiting(t, many)
		for _, tt := range []struct {
			what  string
			most  int64 // bytes for each job
			watch func(*Controller, context.Context, error) error
		}{
			{"of all", 200, all(Query{})},
			{"of another service", 100, all(Query{Service: "other"})},
			{"that resumes", 100, func(c *Controller, ctx context.Context, told error) error {
				f := c.Follow(admin, Query{})
				defer f.Close()
				var now int64
				c.state.Read(func(v *view.View) { now = v.Revision })
				return f.Step(ctx, now, func(int64, *Job) error { return told })
			}},
		} {
			watch := func(c *Controller) int64 {
				return begins(t, func(ctx context.Context, told error) error { return tt.watch(c, ctx, told) })
			}
			each := (watch(other) - watch(one)) / (many - few)
			if t.Logf("%s: %d bytes", tt.what, each); each > tt.most {
				t.Errorf("%s: it takes %d bytes for each job, and %d are allowed", tt.what, each, tt.most)
			}
		}
	})
}

// TestAWatchTellsEveryJobOnce: also those behind the ones that were looked at first, and when it goes on after a break.
func TestAWatchTellsEveryJobOnce(t *testing.T) {
	const jobs = 2*walkAtOnce + 10
	synctest.Test(t, func(t *testing.T) {
		c, admin := waiting(t, jobs), identity.Caller{Subject: identity.Admin, Administrator: true}
		broke := errors.New("the stream broke")
		told, after := map[string]int{}, int64(0)
		for _, most := range []int{jobs / 2, jobs} {
			n, last := 0, int64(0)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			err := c.WatchAll(ctx, admin, Query{}, after, func(j *Job, seen int64) error {
				if j.StreamRevision < last || seen < after {
					t.Fatalf("after revision %d, it tells one of %d, seen %d", last, j.StreamRevision, seen)
				}
				told[j.ID]++
				last, after = j.StreamRevision, seen
				if n++; n == most || len(told) == jobs {
					return broke
				}
				return nil
			})
			if stop(); !errors.Is(err, broke) {
				t.Fatalf("%d of %d are told: %v", len(told), jobs, err)
			}
		}
		twice := 0
		for _, n := range told {
			twice += n - 1
		}
		if again := jobs / 2 % together; len(told) != jobs || twice != again { // those of the revision at which it broke
			t.Errorf("%d of %d are told, %d of them twice, not %d", len(told), jobs, twice, again)
		}
		f := c.Follow(admin, Query{})
		defer f.Close()
		shown := map[string]bool{}
		if err := f.Step(t.Context(), 1, func(_ int64, j *Job) error { shown[j.ID] = true; return nil }); err != nil || len(shown) != jobs {
			t.Errorf("one that resumes is told %d of %d: %v", len(shown), jobs, err)
		}
	})
}

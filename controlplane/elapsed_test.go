package controlplane_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	clocks "github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// elapsed is what the store holds of the agreed time.
func (w *world) elapsed() *record.Elapsed {
	w.t.Helper()
	kv, err := w.store.Get(w.t.Context(), record.ElapsedKey)
	if err != nil {
		w.t.Fatal(err)
	}
	e, err := store.Decode[record.Elapsed](kv)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// kept are the records that are to be kept for an hour and more.
func (w *world) kept() int {
	w.t.Helper()
	return len(w.keys(record.RequestsPrefix)) + len(w.keys(record.DeletedPrefix)) + len(w.keys(record.FederationsPrefix))
}

// makesHistory makes records that are kept for a while: of requests with a key, of a deletion
// and of a creation that was refused.
func (w *world) makesHistory() {
	w.t.Helper()
	w.mustCreate()
	if _, err := w.Federations.DeleteService(w.t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: patience}); err != nil {
		w.t.Fatal(err)
	}
	w.clusters["b"].does(no(record.ReasonNameTaken))
	req := send(w.t, body)
	req.IdempotencyKey = "of this test"
	if _, err := w.Federations.CreateService(w.t.Context(), admin, req); err == nil {
		w.t.Fatal("nobody refused it")
	}
	w.clusters["b"].does(yes)
	if n := w.kept(); n != 5 {
		w.t.Fatalf("%d records are kept: %v", n, w.keys(record.Root))
	}
}

func TestAnInstanceThatIsDaysAheadOrBehindSweepsNothingEarly(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"a day ahead": 25 * time.Hour, "a year ahead": 365 * 24 * time.Hour, "a year behind": -365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				w.makesHistory()
				before := w.kept()
				startControlPlane(t, w.store, w.identity, func(c *controlplane.Config) {
					c.Now, c.SweepInterval = clocks.Ahead(ahead), 5*time.Millisecond
				})
				// What was staged and never named goes at the second sweep: then there were two.
				for range 2 {
					stray := record.HistoryKey("nobody", 1)
					w.put(stray, record.History{V: 1})
					w.eventually(func() bool { return len(w.keys(stray)) == 0 })
				}
				if n := w.kept(); n != before {
					t.Errorf("of %d records %d are left", before, n)
				}
			})
		})
	}
}

// Instances that never run for a whole day forget what is older than a day all the same,
// and one whose clock jumps forgets nothing by that.
func TestDailyRestartsDoNotStopSweeping(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.makesHistory()
		var ahead atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		ran := time.Duration(0)
		for day := range 3 {
			_, stop := startStoppable(t, w.store, w.identity, func(c *controlplane.Config) { c.Now, c.SweepInterval = now, 5*time.Millisecond })
			for range 10 {
				was := w.elapsed()
				ahead.Add(int64(time.Hour))
				w.eventually(func() bool { return w.elapsed().Seconds >= was.Seconds+3600 })
				if ran += time.Hour; ran <= 23*time.Hour && len(w.keys(record.RequestsPrefix)) == 0 {
					t.Fatalf("after %s the requests are swept", ran)
				}
			}
			stop()
			if day < 2 {
				ahead.Add(int64(14*time.Hour) * int64(day+1)) // nobody runs, and who starts has another clock
			}
		}
		startControlPlane(t, w.store, w.identity, func(c *controlplane.Config) { c.Now, c.SweepInterval = now, 5*time.Millisecond })
		w.eventually(func() bool { return len(w.keys(record.RequestsPrefix)) == 0 })
		if n := len(w.keys(record.DeletedPrefix)); n != 3 {
			t.Errorf("%d deletions are remembered after two days", n)
		}
	})
}

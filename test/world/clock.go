package world

import (
	"sync/atomic"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Clock is a clock for Options.Now that a test moves. The zero value is on time.
type Clock struct{ ahead, step atomic.Int64 }

// Now is the time of the clock.
func (c *Clock) Now() time.Time {
	now := time.Now().Add(time.Duration(c.ahead.Load()))
	if step := c.step.Load(); step > 0 {
		now = now.Truncate(time.Duration(step))
	}
	return now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.ahead.Add(int64(d)) }

// Coarse lets the clock stand between steps of this length; 0 is none.
func (c *Clock) Coarse(step time.Duration) { c.step.Store(int64(step)) }

// Pass moves the control planes' clocks by advance, and waits until they have agreed that
// so much time has gone by: first by a little, so that there is a mark after all that was
// written before, which is then older by d.
func (w *World) Pass(advance func(time.Duration), d time.Duration) {
	w.T.Helper()
	for _, step := range []time.Duration{10 * time.Minute, d} {
		was := w.elapsed()
		advance(step)
		w.Eventually("the control planes agree how much time has gone by", func() bool {
			return w.elapsed() >= was+int64(step/time.Second)
		})
	}
}

// elapsed is for how long the control planes have run, in seconds.
func (w *World) elapsed() int64 {
	w.T.Helper()
	kv, err := w.Store.Get(w.T.Context(), record.ElapsedKey)
	if err != nil {
		w.T.Fatal(err)
	}
	e, err := store.Decode[record.Elapsed](kv)
	if err != nil {
		w.T.Fatal(err)
	}
	return e.Seconds
}

package view

import (
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// Records that are kept for an hour or more expire by the time that the instances agree on in
// the store (record.Elapsed). Each instance measures how long it has run since the last write,
// whatever its time of day is, and writes now and then how far all have come. The age of a
// record follows from the revision that wrote it, so no stamp in a record is trusted.

const (
	// TickMost is the longest time between two writes of the agreed time, apart from the pause
	// between two clean-ups, which write it too.
	TickMost = 5 * time.Minute
	// RememberTime is for how long the agreed time of revisions is remembered, as a
	// multiple of the longest time that anything is kept.
	RememberTime = 2
)

// elapsed counts on from the value that the store last held. It is safe for concurrent use.
type elapsed struct {
	mu  sync.Mutex
	rec *record.Elapsed
	// was is the agreed time at a time of our own clock.
	was time.Duration
	at  time.Time
}

// Observe takes over the value that the store holds. It never goes back.
func (e *elapsed) Observe(rec *record.Elapsed, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.was, e.at = max(e.sinceStart(now), time.Duration(rec.Seconds)*time.Second), now
	e.rec = rec
}

// sinceStart needs mu.
func (e *elapsed) sinceStart(now time.Time) time.Duration {
	if e.at.IsZero() {
		return 0
	}
	return e.was + max(now.Sub(e.at), 0)
}

// Age is the minimum age of a record that was written at a revision, by the time that all
// instances agree on.
func (e *elapsed) Age(revision int64, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rec == nil || len(e.rec.Marks) == 0 || e.rec.Marks[len(e.rec.Marks)-1].Revision < revision {
		return 0
	}
	since := time.Duration(e.rec.Since(revision)-e.rec.Seconds) * time.Second
	return max(e.sinceStart(now)+since, 0)
}

// Total is how long instances have run, as far as this one knows.
func (e *elapsed) Total(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sinceStart(now)
}

// Due says whether the agreed time has to be written to the store.
func (e *elapsed) Due(now time.Time, every time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rec == nil || e.sinceStart(now)-time.Duration(e.rec.Seconds)*time.Second >= every
}

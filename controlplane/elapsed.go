package controlplane

import (
	"context"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// What is kept for an hour and more is kept by the time that the instances agree on in
// the store (record.Elapsed). Each one measures how long it has run since the last
// write, whatever the time of day that it believes in, and writes now and then how far
// all have come. How old a record is tells the revision that wrote it, so that no stamp
// in a record is believed either.

const (
	// tickMost is the longest time between two writes of the agreed time, but for the
	// pause between two clean-ups, which write it.
	tickMost = 5 * time.Minute
	// rememberTime is for how long the agreed time of revisions is remembered, as a
	// multiple of the longest time that anything is kept.
	rememberTime = 2
)

// elapsed counts on from what the store last held. It is safe for concurrent use.
type elapsed struct {
	mu  sync.Mutex
	rec *record.Elapsed
	// was is how long it had been at a time of our own clock.
	was time.Duration
	at  time.Time
}

// saw takes over what the store holds. It never goes back.
func (e *elapsed) saw(rec *record.Elapsed, now time.Time) {
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

// age is how old, at least, what was written at a revision is.
func (e *elapsed) age(revision int64, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rec == nil || len(e.rec.Marks) == 0 || e.rec.Marks[len(e.rec.Marks)-1].Revision < revision {
		return 0
	}
	since := time.Duration(e.rec.Since(revision)-e.rec.Seconds) * time.Second
	return max(e.sinceStart(now)+since, 0)
}

// total is for how long instances have run, as far as it is known here.
func (e *elapsed) total(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sinceStart(now)
}

// due says whether the store is to be told how far it is.
func (e *elapsed) due(now time.Time, every time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rec == nil || e.sinceStart(now)-time.Duration(e.rec.Seconds)*time.Second >= every
}

// age is how old, at least, what was written at a revision is, as all instances agree.
func (c *ControlPlane) age(revision int64) time.Duration {
	return c.state.elapsed.age(revision, c.cfg.Now())
}

// tell writes how far the agreed time is, when nobody has done so lately.
func (c *ControlPlane) tell(ctx context.Context) error {
	every := tickMost
	for _, kept := range []time.Duration{c.cfg.KeepRequest, c.cfg.KeepResult, c.cfg.KeepDeleted, c.cfg.KeepJobs} {
		every = min(every, max(kept/8, time.Second))
	}
	if !c.state.elapsed.due(c.cfg.Now(), every) {
		return nil
	}
	longest := rememberTime * max(c.cfg.KeepDeleted, c.cfg.KeepJobs, c.cfg.KeepRequest, c.cfg.KeepResult)
	res, err := c.store.Update(ctx, store.Update{Keys: []string{record.ElapsedKey}, Build: func(v store.View, tx *store.Txn) error {
		now := c.cfg.Now()
		var before *record.Elapsed
		if kv, ok := v.KV(record.ElapsedKey); ok {
			var err error
			if before, err = store.Decode[record.Elapsed](kv); err != nil {
				return err
			}
			c.state.elapsed.saw(before, now)
			if !c.state.elapsed.due(now, every) {
				return nil // another instance has told it
			}
		}
		tx.Expect(record.ElapsedKey)
		tx.Put(record.ElapsedKey, before.Pass(int64(c.state.elapsed.total(now)/time.Second), v.Revision, int64(every/time.Second), int64(longest/time.Second)))
		return nil
	}})
	if err != nil {
		return err
	}
	return c.state.wait(ctx, res.Revision)
}

// elapsedIn is the agreed time in a snapshot; nil where there is none.
func elapsedIn(v snapshot) *record.Elapsed {
	kv, ok := v.KV(record.ElapsedKey)
	if !ok {
		return nil
	}
	e, err := store.Decode[record.Elapsed](kv)
	if err != nil {
		return nil
	}
	return e
}

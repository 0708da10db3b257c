package services

import (
	"errors"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// desiredByOurClock is what is desired of a name, with its deadline by our clock.
func (s *Services) desiredByOurClock(name string) *record.Desired {
	d := s.session.Desired(name)
	if d == nil || d.Deadline == nil {
		return d
	}
	out := *d
	at := record.At(s.due(name, d))
	out.Deadline = &at
	return &out
}

// due is when the deadline of a desired record passes by our clock: as long after it was
// first seen here as it has.
func (s *Services) due(name string, d *record.Desired) time.Time {
	since := s.deadlines.Since(name, d.UID+" "+d.Deadline.String(), s.session.Now())
	if d.DeadlineS <= 0 {
		return d.Deadline.Time // an older control plane does not say how long it has
	}
	return since.Add(time.Duration(d.DeadlineS) * time.Second)
}

// standing enters what holds for the whole cluster.
func (v *observation) standing(now session.Standing) {
	v.stopped, v.epoch, v.restored = now.Stopped, now.Epoch, now.Restored
}

// TokenArrived looks anew at the services of a federation: one that was refused for want of
// its owner's token is voted on again.
func (s *Services) TokenArrived(view *store.MirrorView, federation string) {
	now := s.session.Now()
	for kv := range view.Prefix(record.DesiredServicesPrefix(s.session.ID)) {
		d, err := store.Decode[record.Desired](kv)
		if err != nil || d.Federation != federation || d.Tombstone() {
			continue
		}
		name := record.ParseKey(kv.Key).Name
		s.lookAgain(name, now)
	}
}

// request notes that there is reason to look at a name. What OSCAR shows from then
// on is new enough, so that names that change together share one list.
func (s *Services) request(name string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.requested[name]) {
		s.requested[name] = at
	}
}

// NewEnough is how old an answer of OSCAR may be for a decision about a name:
// not older than the reason for it, than age, and than our own last write.
func (s *Services) NewEnough(name string, now time.Time, age time.Duration) time.Time {
	s.mu.Lock()
	since := s.requested[name]
	s.mu.Unlock()
	for _, other := range []time.Time{now.Add(-age), s.process.writes.written(name)} {
		if other.After(since) {
			since = other
		}
	}
	return since
}

// takePeriodic says whether a name is looked at as part of a resync.
func (s *Services) takePeriodic(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	periodic := s.periodic[name]
	delete(s.periodic, name)
	return periodic
}

// maxVotePause is the longest pause between tries to vote: a vote has a deadline.
const maxVotePause = time.Second

// after puts a name back when its work ended with an error.
func (s *Services) after(name string, err error) {
	switch {
	case err == nil:
		s.retries.Forget(name)
		s.stale.Forget(name)
	case s.session.LoseIfOver(err):
	case errors.Is(err, session.ErrStale):
		s.decisions.AddAfter(name, s.stale.When(name))
	default:
		pause := s.retries.When(name)
		if d := s.session.Desired(name); d != nil && d.Intent == record.IntentPrepare && d.Deadline != nil {
			pause = min(pause, maxVotePause)
		}
		s.session.Log.Warn("service is looked at again", "service", name, "error", err, "pause", pause)
		s.decisions.AddAfter(name, pause)
	}
}

// claims are the names that a goroutine works on.
type claims struct {
	mu    sync.Mutex
	taken map[string]bool // value: another goroutine wanted it meanwhile
}

func newClaims() *claims { return &claims{taken: map[string]bool{}} }

func (c *claims) take(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.taken[name]; taken {
		c.taken[name] = true
		return false
	}
	c.taken[name] = false
	return true
}

// release says whether the name was wanted meanwhile.
func (c *claims) release(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := c.taken[name]
	delete(c.taken, name)
	return wanted
}

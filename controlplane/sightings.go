package controlplane

import (
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// sightings remembers when this instance first saw each deadline. Instances, and the
// one that wrote a deadline, may have clocks that are hours apart: what they agree
// on is how long something may take. An instance that starts anew counts anew, so
// that a deadline passes later then, and never too early. The zero value is ready.
type sightings struct {
	mu   sync.Mutex
	seen map[string]sighting // by federation uid
}

// sighting is of a federation's own deadline and of that of its change.
type sighting struct{ own, change first }

// first is a deadline with the time when it was first seen.
type first struct {
	deadline time.Time
	at       time.Time
}

func (f first) see(deadline, now time.Time) first {
	if f.deadline.Equal(deadline) {
		return f
	}
	return first{deadline: deadline, at: now}
}

// of enters a federation's deadlines into its situation; one without any is forgotten.
func (s *sightings) of(sit *situation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uid := sit.fed.UID
	if sit.fed.Deadline == nil && sit.fed.Change == nil {
		delete(s.seen, uid)
		return
	}
	now := s.seen[uid]
	if d := sit.fed.Deadline; d != nil {
		now.own = now.own.see(d.Time, sit.now)
		sit.since = now.own.at
	}
	if c := sit.fed.Change; c != nil {
		now.change = now.change.see(c.Deadline.Time, sit.now)
		sit.changeSince = now.change.at
	}
	if s.seen == nil {
		s.seen = map[string]sighting{}
	}
	s.seen[uid] = now
}

func (s *sightings) forget(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, uid)
}

// due is when a deadline passes by the clock of this instance: as long after it was
// first seen here as it was set into the future by the clock that wrote it.
func due(written, deadline record.Time, since time.Time) time.Time {
	if since.IsZero() || written.IsZero() {
		return deadline.Time
	}
	return since.Add(deadline.Sub(written.Time))
}

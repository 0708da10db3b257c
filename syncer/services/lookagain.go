package services

import (
	"maps"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Changed decides anew about a service.
func (s *Services) Changed(name string) { s.decisions.Add(name) }

// DesiredChanged decides anew about a service by what OSCAR shows from now on. For what was desired
// before the session began, it is from then on: a syncer that returns makes one list for all.
func (s *Services) DesiredChanged(view *store.MirrorView, name string) {
	at := s.session.Now()
	kv, ok := view.KV(record.DesiredServiceKey(s.session.ID, name))
	if ok && kv.ModRevision <= s.session.Lease.CreateRevision() {
		at = s.session.Started
	}
	s.request(name, at)
	s.decisions.Add(name)
}

// Resync looks at all services as a full compare that has begun at a time.
func (s *Services) Resync(view *store.MirrorView, began time.Time) {
	s.remember()
	wanted := map[string]bool{}
	for kv := range view.Prefix(record.DesiredServicesPrefix(s.session.ID)) {
		name := record.ParseKey(kv.Key).Name
		wanted[name] = true
		s.lookAgain(name, began)
	}
	s.deadlines.Keep(func(name string) bool { return wanted[name] })
	s.process.writes.forget(s.session.Now(), func(name string) bool { return wanted[name] })
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.requested, func(name string, _ time.Time) bool { return !wanted[name] })
}

// TokenArrived looks anew at the services of a federation: one that was refused for want of
// its owner's token is voted on again.
func (s *Services) TokenArrived(view *store.MirrorView, federation string) {
	now := s.session.Now()
	for name, d := range s.session.OfFederation(view, federation) {
		if !d.Tombstone() {
			s.lookAgain(name, now)
		}
	}
}

// lookAgain looks at a service as a resync does.
func (s *Services) lookAgain(name string, at time.Time) {
	s.mu.Lock()
	s.periodic[name] = true
	s.mu.Unlock()
	s.request(name, at)
	s.decisions.Add(name)
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

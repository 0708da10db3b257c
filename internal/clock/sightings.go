package clock

import (
	"maps"
	"sync"
	"time"
)

// Sightings remembers when this process first saw what others wrote. Their clocks may be
// hours away: what all agree on is how long something may take, so each counts that
// from when it saw it first. A process that starts anew counts anew, which is later and
// never too early. The zero value is ready; it is safe for concurrent use.
type Sightings struct {
	mu   sync.Mutex
	seen map[string]sighting
}

type sighting struct {
	what string
	at   time.Time
}

// Since is when what was first seen to stand at a key.
func (s *Sightings) Since(key, what string, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.seen[key]; ok && at.what == what {
		return at.at
	}
	if s.seen == nil {
		s.seen = map[string]sighting{}
	}
	s.seen[key] = sighting{what, now}
	return now
}

// Keep forgets the keys that do not live any more.
func (s *Sightings) Keep(lives func(key string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.seen, func(key string, _ sighting) bool { return !lives(key) })
}

// Forget forgets one key.
func (s *Sightings) Forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, key)
}

package clock

import (
	"maps"
	"sync"
	"time"
)

// FirstSeen tracks when this process first saw what others wrote, to count deadlines from.
// The clocks of the writers may be hours away: what all agree on is how long something may
// take, so each process counts that from when it saw it first. A process that starts anew
// counts anew, which is later and never too early. The zero value is ready; it is safe for
// concurrent use.
type FirstSeen struct {
	mu   sync.Mutex
	seen map[string]seen
}

type seen struct {
	what string
	at   time.Time
}

// Since is when what was first seen to stand at a key.
func (f *FirstSeen) Since(key, what string, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.seen[key]; ok && s.what == what {
		return s.at
	}
	if f.seen == nil {
		f.seen = map[string]seen{}
	}
	f.seen[key] = seen{what, now}
	return now
}

// Keep forgets the keys that do not live any more.
func (f *FirstSeen) Keep(lives func(key string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.seen, func(key string, _ seen) bool { return !lives(key) })
}

// Forget forgets one key.
func (f *FirstSeen) Forget(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.seen, key)
}

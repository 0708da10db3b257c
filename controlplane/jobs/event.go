package jobs

import (
	"sync"
)

const (
	// eventCacheSize bounds the cached events of an instance, in bytes.
	eventCacheSize = 16 << 20
	// eventCost is about how many bytes an entry takes beside the event.
	eventCost = 256
)

// eventCache holds the events of jobs that this instance has accepted until it assigns
// them: the instance that accepts a job usually assigns it a moment later, and need not
// read and open its event again. Every event is in the store too. The cache does not have
// the events of other instances and of later attempts.
type eventCache struct {
	// most bounds the bytes. The older half is dropped at once: events of jobs that
	// another instance has assigned would stay otherwise.
	most int

	mu         sync.Mutex
	young, old map[string][]byte
	size       int
}

// put adds an event. The caller must not change it any more.
func (m *eventCache) put(job string, event []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cost := len(event) + eventCost
	if m.size+cost > m.most/2 {
		m.young, m.old, m.size = nil, m.young, 0
	}
	if m.young == nil {
		m.young = map[string][]byte{}
	}
	m.young[job] = event
	m.size += cost
}

// take returns an event and removes it.
func (m *eventCache) take(job string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	event, ok := m.young[job]
	if ok {
		m.size -= len(event) + eventCost
		delete(m.young, job)
		return event, true
	}
	event, ok = m.old[job]
	delete(m.old, job)
	return event, ok
}

package jobs

import (
	"sync"
)

const (
	// eventMemorySize bounds the events that an instance remembers, in bytes.
	eventMemorySize = 16 << 20
	// eventCost is what one takes besides its own bytes, about.
	eventCost = 256
)

// eventCache holds the events of jobs that this instance has accepted until it assigns
// them: most jobs are assigned by whom they came to, a moment later, and need not be
// read and opened again. What is not here, or was forgotten, is in the store: another
// instance has accepted it, or it is another attempt.
type eventCache struct {
	// most bounds the bytes. Half of them are forgotten at once, the older ones: what
	// another instance has assigned would stay otherwise.
	most int

	mu         sync.Mutex
	young, old map[string][]byte
	size       int
}

// put remembers an event. It must not be changed any more.
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

// take gives an event and forgets it.
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

package jobs

import (
	"sync"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// eventsSize bounds the events that are remembered, in bytes.
const eventsSize = 4 << 20

// Events remembers the events of assignments that came by the watch, which brings
// them although the mirror does not keep them: each is as large as an assignment is
// small, and needed once. What is not here is in the store.
type Events struct {
	mu sync.Mutex
	// young and old have the records by their keys; when young is full, old is forgotten.
	young, old map[string]store.KV
	size       int
}

// Listed implements store.Tap.
func (e *Events) Listed(kvs []store.KV) {
	e.mu.Lock()
	e.young, e.old, e.size = nil, nil, 0 // perhaps of another history
	e.mu.Unlock()
	for _, kv := range kvs {
		e.Changed(kv, false)
	}
}

// Changed implements store.Tap.
func (e *Events) Changed(kv store.KV, deleted bool) {
	if record.ParseKey(kv.Key).Kind != record.KindAssignedEvent {
		return
	}
	if deleted {
		e.take(kv.Key)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if before, ok := e.young[kv.Key]; ok {
		e.size -= len(before.Value)
		delete(e.young, kv.Key)
	}
	if e.size+len(kv.Value) > eventsSize/2 {
		e.young, e.old, e.size = nil, e.young, 0
	}
	if e.young == nil {
		e.young = map[string]store.KV{}
	}
	e.young[kv.Key] = kv
	e.size += len(kv.Value)
}

// take gives a record and forgets it.
func (e *Events) take(key string) (store.KV, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	kv, ok := e.young[key]
	if ok {
		e.size -= len(kv.Value)
		delete(e.young, key)
		return kv, true
	}
	kv, ok = e.old[key]
	delete(e.old, key)
	return kv, ok
}

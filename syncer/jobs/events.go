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
func (h *Events) Listed(kvs []store.KV) {
	h.mu.Lock()
	h.young, h.old, h.size = nil, nil, 0 // perhaps of another history
	h.mu.Unlock()
	for _, kv := range kvs {
		h.Changed(kv, false)
	}
}

// Changed implements store.Tap.
func (h *Events) Changed(kv store.KV, deleted bool) {
	if record.ParseKey(kv.Key).Kind != record.KindAssignedEvent {
		return
	}
	if deleted {
		h.take(kv.Key)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if before, ok := h.young[kv.Key]; ok {
		h.size -= len(before.Value)
		delete(h.young, kv.Key)
	}
	if h.size+len(kv.Value) > eventsSize/2 {
		h.young, h.old, h.size = nil, h.young, 0
	}
	if h.young == nil {
		h.young = map[string]store.KV{}
	}
	h.young[kv.Key] = kv
	h.size += len(kv.Value)
}

// take gives a record and forgets it.
func (h *Events) take(key string) (store.KV, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kv, ok := h.young[key]
	if ok {
		h.size -= len(kv.Value)
		delete(h.young, key)
		return kv, true
	}
	kv, ok = h.old[key]
	delete(h.old, key)
	return kv, ok
}

package jobs

import (
	"github.com/oscarfed/oscarfed/internal/recent"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// eventsSize bounds the events that are remembered, in bytes.
const eventsSize = 4 << 20

// Events remembers the events of assignments that came by the watch, which brings
// them although the mirror does not keep them: each is as large as an assignment is
// small, and needed once. What is not here is in the store.
type Events struct{ kept *recent.Values[store.KV] }

// NewEvents makes Events that have none yet.
func NewEvents() Events { return Events{recent.New[store.KV](eventsSize)} }

// Listed implements store.Tap.
func (e Events) Listed(kvs []store.KV) {
	e.kept.Clear() // perhaps of another history
	for _, kv := range kvs {
		e.Changed(kv, false)
	}
}

// Changed implements store.Tap.
func (e Events) Changed(kv store.KV, deleted bool) {
	switch {
	case record.ParseKey(kv.Key).Kind != record.KindAssignedEvent:
	case deleted:
		e.take(kv.Key)
	default:
		e.kept.Put(kv.Key, kv, len(kv.Value))
	}
}

// take gives a record and forgets it.
func (e Events) take(key string) (store.KV, bool) { return e.kept.Take(key) }

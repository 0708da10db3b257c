package jobs

import (
	"fmt"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Of what the watch brings, the events of assignments are remembered, once and within a
// bound; a listing begins anew.
func TestEventsThatWereHeardOf(t *testing.T) {
	h := NewEvents()
	key := func(i int) string { return record.AssignedEventKey("a", fmt.Sprintf("job-%d", i), 1) }
	h.Changed(store.KV{Key: record.AssignmentKey("a", "job-0", 1), Value: []byte("{}")}, false)
	if _, ok := h.take(record.AssignmentKey("a", "job-0", 1)); ok {
		t.Error("an assignment is no event")
	}
	h.Changed(store.KV{Key: key(0), Value: []byte("first")}, false)
	h.Changed(store.KV{Key: key(0), Value: []byte("second")}, false)
	if kv, ok := h.take(key(0)); !ok || string(kv.Value) != "second" {
		t.Errorf("took %q, %v", kv.Value, ok)
	}
	if _, ok := h.take(key(0)); ok {
		t.Error("it was given twice")
	}
	h.Changed(store.KV{Key: key(1), Value: []byte("x")}, false)
	h.Changed(store.KV{Key: key(1)}, true)
	if _, ok := h.take(key(1)); ok {
		t.Error("a deleted one is remembered")
	}
	h.Changed(store.KV{Key: key(2), Value: []byte("of another history")}, false)
	h.Listed([]store.KV{{Key: key(3), Value: []byte("listed")}})
	if _, ok := h.take(key(2)); ok {
		t.Error("a listing does not have it, and it is remembered")
	}
	if kv, ok := h.take(key(3)); !ok || string(kv.Value) != "listed" {
		t.Errorf("took %q, %v", kv.Value, ok)
	}
	const each = 100 << 10
	n := 3 * eventsSize / each
	for i := range n {
		h.Changed(store.KV{Key: key(i), Value: make([]byte, each)}, false)
	}
	left := 0
	for i := range n {
		if _, ok := h.take(key(i)); ok {
			left++
		} else if i == n-1 {
			t.Error("the newest was forgotten")
		}
	}
	if left*each > eventsSize || left*each < eventsSize/2-each {
		t.Errorf("%d bytes are remembered", left*each)
	}
}

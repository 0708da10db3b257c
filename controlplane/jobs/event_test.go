package jobs

import (
	"fmt"
	"testing"
)

// Events are given once, those of no bytes too, and beyond the bound the older ones are
// forgotten.
func TestEventsAreRememberedWithinABound(t *testing.T) {
	m := eventCache{most: 20 * (eventCost + 100)}
	if _, ok := m.take("none"); ok {
		t.Error("it knows what it was never told")
	}
	m.put("empty", nil)
	if event, ok := m.take("empty"); !ok || len(event) != 0 {
		t.Errorf("an event without bytes: %q, %v", event, ok)
	}
	if _, ok := m.take("empty"); ok {
		t.Error("it was given twice")
	}
	const n = 100
	for i := range n {
		m.put(fmt.Sprint(i), make([]byte, 100))
	}
	left := 0
	for i := range n {
		if _, ok := m.take(fmt.Sprint(i)); ok {
			left++
		} else if i == n-1 {
			t.Error("the newest was forgotten")
		}
	}
	if left < 10 || left > 20 {
		t.Errorf("%d are remembered", left)
	}
	if m.size != 0 {
		t.Errorf("without any it counts %d bytes", m.size)
	}
}

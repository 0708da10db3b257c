package recent

import (
	"fmt"
	"testing"
)

// Values are given once, those of no bytes too, and beyond the bound the older ones are
// forgotten.
func TestValuesAreKeptWithinABound(t *testing.T) {
	const each, n = 100, 100
	v := New[string](20 * each)
	if _, ok := v.Take("none"); ok {
		t.Error("it knows what it was never told")
	}
	v.Put("empty", "", 0)
	if _, ok := v.Take("empty"); !ok {
		t.Error("a value without bytes is not kept")
	}
	if _, ok := v.Take("empty"); ok {
		t.Error("it was given twice")
	}
	for _, value := range []string{"first", "second"} {
		v.Put("again", value, each)
	}
	if got, ok := v.Take("again"); !ok || got != "second" || v.size != 0 {
		t.Errorf("put twice, %q is left, %v, and %d bytes beside it", got, ok, v.size)
	}
	for i := range n {
		v.Put(fmt.Sprint(i), "", each)
	}
	left := 0
	for i := range n {
		if _, ok := v.Take(fmt.Sprint(i)); ok {
			left++
		} else if i == n-1 {
			t.Error("the newest was forgotten")
		}
	}
	if left < 10 || left > 20 {
		t.Errorf("%d are kept", left)
	}
	if v.size != 0 {
		t.Errorf("without any it counts %d bytes", v.size)
	}
	v.Put("cleared", "", each)
	v.Clear()
	if _, ok := v.Take("cleared"); ok || v.size != 0 {
		t.Errorf("cleared, it has %d bytes, and the value: %v", v.size, ok)
	}
}

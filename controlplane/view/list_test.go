package view

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A list is what a sorted slice is, whatever is added and taken out, in whatever order.
func TestAListIsASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list List
		var want []JobPosition
		ids := rapid.IntRange(1, 3*maxBlock).Draw(t, "ids")
		position := func(i int) JobPosition { return JobPosition(fmt.Sprintf("%06d", i)) }
		id := rapid.Custom(func(t *rapid.T) JobPosition { return position(rapid.IntRange(0, ids).Draw(t, "id")) })
		for i := range ids { // as most come
			next := position(i)
			list, want = list.with(next), append(want, next)
		}
		for _, id := range rapid.SliceOfN(id, 0, 4*ids).Draw(t, "changes") {
			at, there := slices.BinarySearch(want, id)
			if there {
				list, want = list.without(id), slices.Delete(want, at, at+1)
			} else {
				list, want = list.with(id), slices.Insert(want, at, id)
			}
		}
		check := func(what string, got List, want []JobPosition) {
			var all []JobPosition
			for id := range got.IDs() {
				all = append(all, JobPosition(id))
			}
			back := slices.Collect(got.Backward())
			slices.Reverse(back)
			if !slices.Equal(all, want) || !slices.Equal(back, want) || got.Len() != len(want) || got.Empty() != (len(want) == 0) {
				t.Fatalf("%s: %d %v and %v, want %v", what, got.Len(), all, back, want)
			}
		}
		check("whole", list, want)
		before, from := id.Draw(t, "before"), 0
		at, _ := slices.BinarySearch(want, before)
		rest := list
		for range rapid.IntRange(0, min(5, len(want))).Draw(t, "rest") {
			rest, from = rest.Rest(), from+1
		}
		check("rest", rest, want[from:])
		check("rest before", rest.Before(before), want[from:max(at, from)])
		parts := []List{rest.Before(before), {}, {}}
		for i, id := range want[max(at, from):] {
			parts[1+i%2] = parts[1+i%2].with(id)
		}
		newest := slices.Collect(NewestOf(parts))
		slices.Reverse(newest)
		if !slices.Equal(newest, want[from:]) {
			t.Fatalf("merged: %v, want %v", newest, want[from:])
		}
	})
}

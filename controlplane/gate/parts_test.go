package gate

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/store"
)

// A transaction here takes ten; an item says how much it needs.
func TestWhatIsTooLargeTogetherIsDoneInParts(t *testing.T) {
	errDown := errors.New("down")
	for name, tt := range map[string]struct {
		items []int
		// down is the item at which etcd goes away; 0 for never.
		down int
		done [][]int
		want error
	}{
		"nothing":                             {done: [][]int{nil}},
		"all at once":                         {items: []int{1, 2, 3}, done: [][]int{{1, 2, 3}}},
		"in halves of halves":                 {items: []int{4, 5, 6, 7, 1, 2, 3}, done: [][]int{{4}, {5}, {6}, {7, 1}, {2, 3}}},
		"only what is too large":              {items: []int{1, 2, 9, 8}, done: [][]int{{1, 2}, {9}, {8}}},
		"one that never fits delays no other": {items: []int{1, 11, 2, 3}, done: [][]int{{1}, {2, 3}}, want: store.ErrTooLarge},
		"another error ends it":               {items: []int{1, 6, 7, 3}, down: 7, done: [][]int{{1, 6}}, want: errDown},
		"and is the one that is told":         {items: []int{11, 7, 3, 4}, down: 7, want: errDown},
	} {
		t.Run(name, func(t *testing.T) {
			var done [][]int
			err := InParts(tt.items, func(some []int) error {
				sum := 0
				for _, n := range some {
					sum += n
				}
				switch {
				case sum > 10:
					return fmt.Errorf("%w: %d", store.ErrTooLarge, sum)
				case tt.down != 0 && slices.Contains(some, tt.down):
					return errDown
				}
				done = append(done, some)
				return nil
			})
			if !errors.Is(err, tt.want) {
				t.Errorf("it ended with %v", err)
			}
			if !slices.EqualFunc(done, tt.done, slices.Equal[[]int]) {
				t.Errorf("done: %v", done)
			}
		})
	}
}

package view

import (
	"container/heap"
	"iter"
)

// NewestOf are the positions of several lists, which have none in common, from the greatest to the
// smallest.
func NewestOf(lists []List) iter.Seq[JobPosition] {
	return func(yield func(JobPosition) bool) {
		ends := make(cursors, 0, len(lists))
		for _, l := range lists {
			if !l.Empty() {
				ends = append(ends, newCursor(l))
			}
		}
		heap.Init(&ends)
		for len(ends) > 0 {
			if !yield(ends[0].position()) {
				return
			}
			if ends[0].back() {
				heap.Fix(&ends, 0)
			} else {
				heap.Pop(&ends)
			}
		}
	}
}

// cursor is a place in a list.
type cursor struct {
	list List
	left []JobPosition
}

func newCursor(l List) *cursor { return &cursor{l, l.block(len(l.blocks) - 1)} }

func (c *cursor) position() JobPosition { return c.left[len(c.left)-1] }

// back goes to the position before; false when there is none.
func (c *cursor) back() bool {
	if c.left = c.left[:len(c.left)-1]; len(c.left) > 0 {
		return true
	}
	if len(c.list.blocks) == 1 {
		return false
	}
	*c = *newCursor(List{blocks: c.list.blocks[:len(c.list.blocks)-1], skip: c.list.skip})
	return true
}

// cursors is a heap of places, the one with the greatest position first.
type cursors []*cursor

func (c cursors) Len() int           { return len(c) }
func (c cursors) Less(i, j int) bool { return c[i].position() > c[j].position() }
func (c cursors) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }

// Push is of container/heap.
func (c *cursors) Push(x any) { *c = append(*c, x.(*cursor)) } //nolint:forcetypeassert // cursors alone are pushed

// Pop is of container/heap.
func (c *cursors) Pop() any {
	old := *c
	last := old[len(old)-1]
	*c = old[:len(old)-1]
	return last
}

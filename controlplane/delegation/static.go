package delegation

import (
	"cmp"
	"slices"
)

// orderStatic puts the lowest priority first; equal ones stay in the order in which
// the federation lists them, the coordinator first.
func (s *Snapshot) orderStatic(fit []*entrant) {
	for _, e := range fit {
		e.score = new(float64(e.Priority))
	}
	slices.SortStableFunc(fit, func(a, b *entrant) int { return cmp.Compare(a.Priority, b.Priority) })
}

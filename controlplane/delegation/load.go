package delegation

import (
	"cmp"
	"slices"
)

// fullCPU is the number of free millicores that scores 0: OSCAR's formula of v3.
const fullCPU = 32000

// orderLoad puts the cluster with the most free CPU first, what is promised taken off.
// Endpoints, of which nothing is known, stand behind.
func (s *Snapshot) orderLoad(fit []*entrant) {
	for _, e := range fit {
		if !e.endpoint() {
			free := min(max(e.room.sum.CPU, 0), fullCPU)
			e.score = new(100 - float64(100*free)/fullCPU)
		}
	}
	slices.SortStableFunc(fit, func(a, b *entrant) int {
		return cmp.Or(int(bit(a.endpoint()))-int(bit(b.endpoint())), cmp.Compare(b.room.sum.CPU, a.room.sum.CPU))
	})
}

package delegation

import (
	"math/rand/v2"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// orderRandom draws one after another, each with the part that its weight has in the
// weights of those that are left.
func (s *Snapshot) orderRandom(fit []*entrant) {
	draw := s.draw()
	for _, e := range fit {
		e.score = new(s.weight(e.Candidate))
	}
	for i := range fit {
		total := 0.0
		for _, e := range fit[i:] {
			total += *e.score
		}
		at, mark := i, draw()*total
		for j, e := range fit[i:] {
			// Rounding may leave a rest: the last one with a weight takes it.
			if *e.score > 0 {
				at = i + j
			}
			if mark -= *e.score; mark < 0 {
				break
			}
		}
		chosen := fit[at]
		copy(fit[i+1:at+1], fit[i:at])
		fit[i] = chosen
	}
}

// weight of a candidate in random: federation.weights by cluster/service, then by
// cluster, then its own, then 1.
func (s *Snapshot) weight(c *Candidate) float64 {
	for _, key := range []string{c.Place(), c.Cluster} {
		if w, ok := s.Weights[key]; ok && !c.endpoint() {
			return min(max(w, 0), oscar.MaxWeight)
		}
	}
	if c.Weight != nil {
		return min(max(float64(*c.Weight), 0), oscar.MaxWeight)
	}
	return 1
}

// draw gives numbers in [0, 1), the same for the same seed. Only the generator itself
// is taken from the library, whose output is fixed by its definition.
func (s *Snapshot) draw() func() float64 {
	const stream = 0x6f73636172666564
	pcg := rand.NewPCG(s.Seed, stream)
	return func() float64 { return float64(pcg.Uint64()>>11) / (1 << 53) }
}

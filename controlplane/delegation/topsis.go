package delegation

import (
	"cmp"
	"math"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// Criterion of topsis, and its key in federation.weights.
type Criterion string

// The criteria.
const (
	CriterionLatency  Criterion = "latency"
	CriterionNodes    Criterion = "nodes"
	CriterionMemory   Criterion = "memory"
	CriterionCPU      Criterion = "cpu"
	CriterionDuration Criterion = "duration"
	CriterionPending  Criterion = "pending"
)

// criterion is one column: its default weight, whether low is good, and its value for
// a member that has room; ok is false when it is not known.
type criterion struct {
	name   Criterion
	weight float64
	low    bool
	value  func(e *entrant) (v float64, ok bool)
}

// pendingBase keeps a member without pending jobs from being infinitely better than
// one with a single one.
const pendingBase = 0.1

// criteria and weights are those of OSCAR's Manager (resourcemanager/delegate.go).
func criteria() []criterion {
	const forever = 1e9 // seconds; more would not be finite when squared
	known := func(v float64) (float64, bool) { return min(v, forever), v > 0 }
	return []criterion{
		{CriterionLatency, 1, true, func(e *entrant) (float64, bool) { return known(e.History.Latency) }},
		{CriterionNodes, 8, false, func(e *entrant) (float64, bool) { return float64(e.room.sum.Nodes), true }},
		{CriterionMemory, 18, false, func(e *entrant) (float64, bool) { return float64(e.room.sum.Memory), true }},
		{CriterionCPU, 65, false, func(e *entrant) (float64, bool) { return float64(e.room.sum.CPU), true }},
		{CriterionDuration, 2, true, func(e *entrant) (float64, bool) { return known(e.History.Duration) }},
		{CriterionPending, 6, true, func(e *entrant) (float64, bool) { return float64(max(e.History.Pending, 0)) + pendingBase, true }},
	}
}

// near is how far below the best score, as a part of it, a member may be and still be
// drawn as if it were the best.
const near = 0.2

// orderTopsis scores by closeness: the technique for order of preference by similarity
// to the ideal solution (Hwang and Yoon, 1981). Each criterion is normalised to a
// vector of length one and weighted; the ideal has the best of each, its opposite the
// worst; the score is d-/(d+ + d-), by the Euclidean distances to the two. A column of
// zeros says nothing and counts nothing; when all are equal, all score 1.
// What is not known of a member is taken for the mean of those that it is known of.
//
// Endpoints, of which nothing is known, stand behind. Those within a fifth of the best
// score are drawn, so that jobs of the same moment do not all go to one place.
func (s *Snapshot) orderTopsis(fit []*entrant) {
	slices.SortStableFunc(fit, func(a, b *entrant) int { return int(bit(a.endpoint())) - int(bit(b.endpoint())) })
	rows := fit
	if at := slices.IndexFunc(fit, func(e *entrant) bool { return e.endpoint() }); at >= 0 {
		rows = fit[:at]
	}
	if len(rows) == 0 {
		return
	}
	for i, score := range s.closeness(rows) {
		rows[i].score = new(score)
	}
	slices.SortStableFunc(rows, func(a, b *entrant) int { return cmp.Compare(*b.score, *a.score) })
	best, draw := *rows[0].score, s.draw()
	n := 0
	for n < len(rows) && *rows[n].score >= best*(1-near) {
		n++
	}
	for i := n - 1; i > 0; i-- {
		j := int(draw() * float64(i+1))
		rows[i], rows[j] = rows[j], rows[i]
	}
}

// closeness of each row. Products are converted before they are added, so that no
// machine fuses the two and the bits are the same everywhere.
func (s *Snapshot) closeness(rows []*entrant) []float64 {
	toBest, toWorst := make([]float64, len(rows)), make([]float64, len(rows))
	for _, c := range criteria() {
		column := c.column(rows)
		weight := c.weight
		if w, ok := s.Weights[string(c.name)]; ok {
			weight = min(max(w, 0), oscar.MaxWeight)
		}
		best, worst := slices.Max(column), slices.Min(column)
		if c.low {
			best, worst = worst, best
		}
		for i, v := range column {
			up, down := (v-best)*weight, (v-worst)*weight
			toBest[i] += float64(up * up)
			toWorst[i] += float64(down * down)
		}
	}
	scores := make([]float64, len(rows))
	for i := range rows {
		up, down := math.Sqrt(toBest[i]), math.Sqrt(toWorst[i])
		if scores[i] = 1; up+down > 0 {
			scores[i] = down / (up + down)
		}
	}
	return scores
}

// column is one criterion of all rows, as a vector of length one, or of zeros.
func (c criterion) column(rows []*entrant) []float64 {
	column, known, sum := make([]float64, len(rows)), make([]bool, len(rows)), 0.0
	n := 0
	for i, e := range rows {
		if column[i], known[i] = c.value(e); known[i] {
			sum += column[i]
			n++
		}
	}
	length := 0.0
	for i := range column {
		if !known[i] {
			column[i] = 0
			if n > 0 {
				column[i] = sum / float64(n)
			}
		}
		length += float64(column[i] * column[i])
	}
	if length = math.Sqrt(length); length == 0 {
		return make([]float64, len(rows))
	}
	for i := range column {
		column[i] /= length
	}
	return column
}

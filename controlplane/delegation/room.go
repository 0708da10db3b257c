package delegation

import (
	"cmp"
	"math"
	"slices"
)

// A promise is for a cluster, and it is not known which node its scheduler will
// choose. A job fits a cluster when there is a way to put it and everything that is
// promised on the listed nodes, each on one: then what is promised never exceeds what
// was measured, on no node and in no resource.
//
// The way is looked for by first fit decreasing, the new job among the promised ones:
// what it finds is a proof, and it finds the same again when the job is among the
// promised ones at the next choice. When it finds none there may still be one; then
// the job waits or goes elsewhere. A scheduler that spreads pods may leave no node
// empty enough for a large one that the proof has room for; that job is pending there
// like any other, and its syncer may offer it.

// room is what a cluster has left.
type room struct {
	// fits says that the request and all that is promised can be placed.
	fits bool
	// sum over all nodes, also those not listed, with what is promised taken off.
	sum Sum
	// taken is how many promised jobs are taken off.
	taken int64
}

// Fits says whether a request fits beside what is promised.
func (c Capacity) Fits(promised []Promise, request Request) bool {
	return measure(c, promised, request).fits
}

// measure says whether a request fits beside what is promised.
func measure(capacity Capacity, promised []Promise, request Request) room {
	r := room{taken: max(capacity.Taken, 0), sum: Sum{Request: capacity.More.Floor(), Nodes: max(capacity.More.Nodes, 0)}}
	nodes := make([]Request, len(capacity.Nodes))
	for i, n := range capacity.Nodes {
		nodes[i] = n.Floor()
		r.sum.Request = r.sum.Plus(nodes[i])
	}
	r.sum.Nodes = add(r.sum.Nodes, int64(len(nodes)))

	items := []Promise{{Request: request.Floor(), Count: 1}}
	total := r.sum.Request
	for _, p := range promised {
		if p.Count <= 0 {
			continue
		}
		p.Request = p.Floor()
		items = append(items, p)
		r.taken = add(r.taken, p.Count)
		r.sum.Request = r.sum.minus(p.Request, p.Count)
	}
	slices.SortStableFunc(items, func(a, b Promise) int { return compareSize(b.Request, a.Request, total) })
	r.fits = !slices.ContainsFunc(items, func(item Promise) bool { return !place(nodes, item) })
	return r
}

// place puts all of an item on the first nodes that can take them, or says that some
// are left over.
func place(nodes []Request, item Promise) bool {
	left := item.Count
	for i := range nodes {
		n := min(nodes[i].holds(item.Request), left)
		nodes[i] = nodes[i].minus(item.Request, n)
		if left -= n; left == 0 {
			return true
		}
	}
	return false
}

// compareSize puts what needs GPUs above what does not, and then what takes the
// larger part of all there is of one resource.
func compareSize(a, b, total Request) int {
	return cmp.Or(
		cmp.Compare(a.GPU, b.GPU),
		cmp.Compare(a.part(total), b.part(total)),
		cmp.Compare(a.CPU, b.CPU),
		cmp.Compare(a.Memory, b.Memory),
	)
}

// part is the larger of the parts of all CPU and of all memory.
func (r Request) part(total Request) float64 {
	return max(float64(r.CPU)/max(float64(total.CPU), 1), float64(r.Memory)/max(float64(total.Memory), 1))
}

// Plus adds; what is too large to count stays the largest number. Nothing is negative.
func (r Request) Plus(o Request) Request {
	return Request{CPU: add(r.CPU, o.CPU), Memory: add(r.Memory, o.Memory), GPU: add(r.GPU, o.GPU)}
}

// Times is n times r, as Plus counts.
func (r Request) Times(n int64) Request {
	return Request{CPU: times(r.CPU, n, math.MaxInt64), Memory: times(r.Memory, n, math.MaxInt64), GPU: times(r.GPU, n, math.MaxInt64)}
}

// Floor takes what is negative for nothing: more is used than there is where usage is
// measured.
func (r Request) Floor() Request {
	return Request{CPU: max(r.CPU, 0), Memory: max(r.Memory, 0), GPU: max(r.GPU, 0)}
}

// minus takes n times o off, down to nothing.
func (r Request) minus(o Request, n int64) Request {
	return Request{CPU: r.CPU - times(o.CPU, n, r.CPU), Memory: r.Memory - times(o.Memory, n, r.Memory), GPU: r.GPU - times(o.GPU, n, r.GPU)}
}

// holds is how many pods of size o have room in r.
func (r Request) holds(o Request) int64 {
	n := int64(math.MaxInt64)
	for _, of := range [][2]int64{{r.CPU, o.CPU}, {r.Memory, o.Memory}, {r.GPU, o.GPU}} {
		if of[1] > 0 {
			n = min(n, of[0]/of[1])
		}
	}
	return n
}

// add of numbers that are not negative.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// times is a*n, at most limit. None is negative.
func times(a, n, limit int64) int64 {
	if n != 0 && a > limit/n {
		return limit
	}
	return a * n
}

package delegation

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// task is a job of a trace; times in seconds.
type task struct {
	name    string
	arrives float64
	lasts   float64
	request Request
}

// cluster runs tasks: on the node with the most free CPU, as Kubernetes does; those
// that fit none wait there, and a smaller one may overtake them.
type cluster struct {
	all, free []Request
	waiting   []task
}

func (c *cluster) start(t task) (node int, ok bool) {
	best := -1
	for i, n := range c.free {
		if n.holds(t.request) > 0 && (best < 0 || n.CPU > c.free[best].CPU) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	c.free[best] = c.free[best].minus(t.request, 1)
	return best, true
}

type ending struct {
	at            float64
	cluster, node int
	request       Request
}

type endings []ending

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].at < e[j].at }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)        { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// fleet is many clusters and their time.
type fleet struct {
	clusters []*cluster
	running  endings
	makespan float64
}

func newFleet(nodes [][]Request) *fleet {
	f := &fleet{}
	for _, n := range nodes {
		f.clusters = append(f.clusters, &cluster{all: n, free: slices.Clone(n)})
	}
	return f
}

// give hands a task to a cluster.
func (f *fleet) give(at float64, to int, t task) {
	c := f.clusters[to]
	node, ok := c.start(t)
	if !ok {
		c.waiting = append(c.waiting, t)
		return
	}
	f.makespan = max(f.makespan, at+t.lasts)
	heap.Push(&f.running, ending{at + t.lasts, to, node, t.request})
}

// pass ends the tasks that end until a time, and starts those that wait for them.
func (f *fleet) pass(until float64) {
	for len(f.running) > 0 && f.running[0].at <= until {
		e := heap.Pop(&f.running).(ending)
		c := f.clusters[e.cluster]
		c.free[e.node] = c.free[e.node].Plus(e.request)
		waiting := c.waiting
		c.waiting = nil
		for _, t := range waiting {
			f.give(e.at, e.cluster, t)
		}
	}
}

// trace is 50 uneven clusters, from one box to nine nodes, and jobs that arrive faster
// than they can be done: some ten times what fits at once.
func trace(seed uint64) (nodes [][]Request, tasks []task) {
	r := rand.New(rand.NewPCG(seed, 50))
	for i := range 50 {
		var c []Request
		for range 1 + i*i/300 { // 1 to 9
			c = append(c, Request{CPU: 1000 * (2 + r.Int64N(7)), Memory: gib * (8 + r.Int64N(25))})
		}
		nodes = append(nodes, c)
	}
	at := 0.0
	for i := range 5000 {
		at += r.ExpFloat64() * 0.2
		tasks = append(tasks, task{
			name: fmt.Sprintf("job-%d", i), arrives: at, lasts: 20 + r.Float64()*280,
			request: Request{CPU: 250 * (1 + r.Int64N(8)), Memory: gib / 4 * (1 + r.Int64N(16))},
		})
	}
	return nodes, tasks
}

// blind gives each job to a cluster that is drawn among those with a node large
// enough, whatever runs there.
func blind(nodes [][]Request, tasks []task) float64 {
	f, r := newFleet(nodes), rand.New(rand.NewPCG(7, 7))
	for _, t := range tasks {
		f.pass(t.arrives)
		for {
			to := r.IntN(len(nodes))
			if slices.ContainsFunc(nodes[to], func(n Request) bool { return n.holds(t.request) > 0 }) {
				f.give(t.arrives, to, t)
				break
			}
		}
	}
	f.pass(1e12)
	return f.makespan
}

// knowing is the greedy choice that knows everything: what is free on each node at each
// moment, and it may name the node. Each job, in the order of arrival, goes where it ends
// first, on the node that it fits best.
func knowing(nodes [][]Request, tasks []task) float64 {
	f := newFleet(nodes)
	var waiting []task
	next := 0
	for next < len(tasks) || len(waiting) > 0 {
		now := 1e12
		if len(f.running) > 0 {
			now = f.running[0].at
		}
		if next < len(tasks) {
			now = min(now, tasks[next].arrives)
		}
		f.pass(now)
		for ; next < len(tasks) && tasks[next].arrives <= now; next++ {
			waiting = append(waiting, tasks[next])
		}
		refused := 0
		waiting = slices.DeleteFunc(waiting, func(t task) bool {
			if refused == overtaking {
				return false
			}
			to, node := -1, 0
			for i, c := range f.clusters {
				for j, n := range c.free {
					if n.holds(t.request) > 0 && (to < 0 || n.CPU < f.clusters[to].free[node].CPU) {
						to, node = i, j
					}
				}
			}
			if to < 0 {
				refused++
				return false
			}
			c := f.clusters[to]
			c.free[node] = c.free[node].minus(t.request, 1)
			f.makespan = max(f.makespan, now+t.lasts)
			heap.Push(&f.running, ending{now + t.lasts, to, node, t.request})
			return true
		})
	}
	return f.makespan
}

// overtaking is how many jobs that fit nowhere are passed over for smaller ones.
const overtaking = 10

// measuredEvery is how old a capacity may be, as in the syncer.
const measuredEvery = 15

// chosen lets Choose decide, as the control plane does: from capacities that are up to
// 15 s old, with what it has promised since taken off. It fails the test when more is
// promised than was measured.
func chosen(t *testing.T, nodes [][]Request, tasks []task) float64 {
	t.Helper()
	f := newFleet(nodes)
	s := Snapshot{Policy: "load-based", Topology: "mesh", From: "c0/s"}
	for i := range nodes {
		s.Candidates = append(s.Candidates, member(fmt.Sprint("c", i)))
	}
	var waiting []task
	next := 0
	for now := 0.0; next < len(tasks) || len(waiting) > 0; now += measuredEvery {
		f.pass(now)
		for i, c := range f.clusters {
			s.Candidates[i].Capacity, s.Candidates[i].Promised = Capacity{Nodes: slices.Clone(c.free)}, nil
		}
		for ; next < len(tasks) && tasks[next].arrives < now+measuredEvery; next++ {
			waiting = append(waiting, tasks[next])
		}
		refused := 0
		waiting = slices.DeleteFunc(waiting, func(job task) bool {
			if refused == overtaking {
				return false
			}
			s.Request = job.request
			d := Choose(s)
			to := slices.IndexFunc(s.Candidates, func(c Candidate) bool { return c.Place() == d.Chosen })
			if to < 0 {
				refused++
				return false
			}
			promised := s.Candidates[to].Promised
			at := slices.IndexFunc(promised, func(p Promise) bool { return p.Request == job.request })
			if at < 0 {
				promised, at = append(promised, Promise{Request: job.request}), len(promised)
			}
			promised[at].Count++
			s.Candidates[to].Promised = promised
			f.pass(max(now, job.arrives))
			f.give(max(now, job.arrives), to, job)
			return true
		})
		for _, c := range s.Candidates {
			var measured, promised Request
			for _, n := range c.Capacity.Nodes {
				measured = measured.Plus(n)
			}
			for _, p := range c.Promised {
				promised = promised.Plus(Request{CPU: p.CPU * p.Count, Memory: p.Memory * p.Count})
			}
			if promised.CPU > measured.CPU || promised.Memory > measured.Memory {
				t.Fatalf("at %g: %v is promised of %s, which had %v", now, promised, c.Cluster, measured)
			}
		}
	}
	f.pass(1e12)
	return f.makespan
}

// TestLoadBasedMakespan: how long the whole trace takes, against a choice that knows
// everything and one that knows nothing.
func TestLoadBasedMakespan(t *testing.T) {
	nodes, tasks := trace(1)
	ours, best, random := chosen(t, nodes, tasks), knowing(nodes, tasks), blind(nodes, tasks)
	t.Logf("load-based %.0f s, all-knowing %.0f s (%.3f), random %.0f s (%.3f)", ours, best, ours/best, random, ours/random)
	if ours > 1.1*best {
		t.Errorf("%.3f times the choice that knows everything", ours/best)
	}
	if ours > 0.7*random {
		t.Errorf("%.3f times random's", ours/random)
	}
}

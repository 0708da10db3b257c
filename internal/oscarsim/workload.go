package oscarsim

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// Workload makes Jobs run by themselves: a pod gets the first node that has room for
// what its service asks for and waits (Pending) while none has, runs for a while, and
// ends. Nodes are those of Config or SetNodes; what they use besides is RequestCPU and
// RequestMemory.
type Workload struct {
	// Seed decides, with a Job's name, how long it runs and how it ends.
	Seed uint64
	// Min and Max bound how long a Job runs.
	Min, Max time.Duration
	// Fails is the share of Jobs that fail, between 0 and 1.
	Fails float64
}

// workload is the scheduler and the kubelets of a cluster. Nothing happens by itself: each reader
// of Jobs first advances it to the present (advance). The Sim's lock guards it.
type workload struct {
	cfg     *Workload
	nodes   []Node
	held    map[string]bool // events whose next Job does not run by itself
	waiting []*job          // for a node, oldest first
	running finishing
}

// finishing is a heap of running Jobs; the first is the next to end.
type finishing []*job

func (f finishing) Len() int           { return len(f) }
func (f finishing) Less(a, b int) bool { return f[a].ends.Before(f[b].ends) }
func (f finishing) Swap(a, b int)      { f[a], f[b] = f[b], f[a] }

// Push implements heap.Interface.
func (f *finishing) Push(x any) {
	if j, ok := x.(*job); ok {
		*f = append(*f, j)
	}
}

// Pop implements heap.Interface.
func (f *finishing) Pop() any {
	last := len(*f) - 1
	j := (*f)[last]
	(*f)[last] = nil
	*f = (*f)[:last]
	return j
}

// add takes a new Job in.
func (w *workload) add(j *job, svc *wire.Service) {
	if w.cfg == nil || j.status != JobPending {
		return
	}
	if w.held[j.event] {
		delete(w.held, j.event)
		return
	}
	j.cpu, j.memory = amount(svc.CPU, 1000), amount(svc.Memory, 1)
	w.advance(j.created)
	w.waiting = append(w.waiting, j)
	w.schedule(j.created)
}

// amount reads a quantity that was checked before.
func amount(s string, scale int64) int64 {
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return 0
	}
	if scale == 1000 {
		return q.MilliValue()
	}
	return q.Value()
}

// remove takes a Job out: it is deleted, or goes on by hand.
func (w *workload) remove(j *job, now time.Time) {
	if w.cfg == nil {
		return
	}
	if i := slices.Index(w.waiting, j); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
	if i := slices.Index(w.running, j); i >= 0 {
		heap.Remove(&w.running, i)
		j.node = ""
		w.schedule(now)
	}
}

// advance moves the workload to now: Jobs end, and others get their nodes.
func (w *workload) advance(now time.Time) {
	for len(w.running) > 0 && !w.running[0].ends.After(now) {
		j, _ := heap.Pop(&w.running).(*job)
		at := j.ends
		j.status, j.finished, j.node = JobSucceeded, at, ""
		if _, fails := w.fate(j); fails {
			j.status = JobFailed
		}
		j.output = fmt.Sprintf("%s: %s", j.name, j.status)
		w.schedule(at)
	}
}

// schedule gives nodes to Jobs that wait, in their order. One that fits nowhere does
// not hold up a smaller one.
func (w *workload) schedule(at time.Time) {
	if len(w.waiting) == 0 {
		return
	}
	cpu, memory := map[string]int64{}, map[string]int64{}
	for _, n := range w.nodes {
		takenCPU, takenMemory := w.requests(n)
		cpu[n.Name], memory[n.Name] = n.CPU-takenCPU, n.Memory-takenMemory
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(j *job) bool {
		for _, n := range w.nodes {
			if n.NotReady || n.Interlink || cpu[n.Name] < j.cpu || memory[n.Name] < j.memory {
				continue
			}
			cpu[n.Name] -= j.cpu
			memory[n.Name] -= j.memory
			length, _ := w.fate(j)
			j.node, j.status, j.started, j.ends = n.Name, JobRunning, at, at.Add(length)
			heap.Push(&w.running, j)
			return true
		}
		return false
	})
}

// requests are millicores and bytes of all pods on a node.
func (w *workload) requests(n Node) (cpu, memory int64) {
	cpu, memory = n.RequestCPU, n.RequestMemory
	for _, j := range w.running {
		if j.node == n.Name {
			cpu, memory = cpu+j.cpu, memory+j.memory
		}
	}
	return cpu, memory
}

// fate is how long a Job runs and whether it fails, drawn by its name.
func (w *workload) fate(j *job) (time.Duration, bool) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(j.name))
	draw := rand.New(rand.NewPCG(w.cfg.Seed, h.Sum64())) //nolint:gosec // a simulation that can be repeated
	length := w.cfg.Min
	if w.cfg.Max > w.cfg.Min {
		length += time.Duration(draw.Int64N(int64(w.cfg.Max - w.cfg.Min)))
	}
	return length, draw.Float64() < w.cfg.Fails
}

// Starts counts the Jobs that Kubernetes has ever made, deleted ones too: whether its
// pod got a node is not asked. A Job of the same name that is made again counts twice.
type Starts struct {
	// Names is by the Job's name, Events by its event.
	Names  map[string]int `json:"names"`
	Events map[string]int `json:"events"`
}

type starts struct{ names, events map[string]int }

func (s *starts) count(j *job) {
	s.names[j.name]++
	s.events[j.event]++
}

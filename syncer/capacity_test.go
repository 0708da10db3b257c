package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/await"
)

// capacity is what the cluster reported to have free, or nil.
func (r *rig) capacity() *record.Capacity {
	r.t.Helper()
	kv, ok := r.mirror.Snapshot().KV(record.CapacityKey(clusterID))
	if !ok {
		return nil
	}
	c, err := store.Decode[record.Capacity](kv)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// capacityRevision is when that was written.
func (r *rig) capacityRevision() int64 {
	kv, _ := r.mirror.Snapshot().KV(record.CapacityKey(clusterID))
	return kv.ModRevision
}

// measured waits until the cluster was measured anew, and that was considered: the
// measurement after the next is asked for.
func (r *rig) measured() {
	r.t.Helper()
	before := r.sim.Calls()[oscarsim.OpStatus]
	r.eventually("the cluster is measured", func() bool { return r.sim.Calls()[oscarsim.OpStatus] >= before+3 })
}

const gib = 1 << 30

func node(name string, cpu, usedCPU, memory, usedMemory int64) record.CapacityNode {
	return record.CapacityNode{
		Name: name, CPU: record.NodeAmount{Allocatable: cpu, Free: cpu - usedCPU},
		Memory: record.NodeMemory{Allocatable: memory, Free: memory - usedMemory}, Status: record.NodeReady,
	}
}

func TestCapacityIsWhatOneNodeHasFree(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Nodes: []oscarsim.Node{
			{Name: "small", CPU: 2000, Memory: 4 * gib, UsedCPU: 1999, UsedMemory: 4*gib - 1},
			{Name: "large", CPU: 8000, Memory: 16 * gib, RequestCPU: 1500, UsedCPU: 100, RequestMemory: gib},
			{Name: "over", CPU: 1000, Memory: gib, UsedCPU: 3000, UsedMemory: 2 * gib},
			{Name: "away", CPU: 90000, Memory: 900 * gib, NotReady: true},
			{Name: "front", CPU: 90000, Memory: 900 * gib, Interlink: true},
		}})
		r.start()
		r.eventually("the capacity is reported", func() bool { return r.capacity() != nil })
		got := r.capacity()
		want := &record.Capacity{
			V: 1, Source: record.CapacityFromOscar, CPU: record.CapacityCPU{TotalFree: 6500, MaxFreeOnNode: 6500},
			Memory: record.CapacityMemory{TotalFree: 15 * gib, MaxFreeOnNode: 15 * gib},
			Nodes: []record.CapacityNode{
				node("large", 8000, 1500, 16*gib, gib), node("small", 2000, 2000, 4*gib, 4*gib), node("over", 1000, 1000, gib, gib),
			},
			Session: r.sessionRevision(), ChangedAt: got.ChangedAt, LookEvery: 60,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if got.ChangedAt.IsZero() {
			t.Error("it does not say when")
		}
	})
}

// TestInterlinkNodesCountAsCapacity: they do not; nor do nodes that are not ready.
func TestInterlinkNodesCountAsCapacity(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Nodes: []oscarsim.Node{{Name: "front", CPU: 90000, Memory: gib, Interlink: true}, {Name: "away", CPU: 90000, Memory: gib, NotReady: true}}})
		r.start()
		r.eventually("the capacity is reported", func() bool { return r.capacity() != nil })
		if c := r.capacity(); len(c.Nodes) != 0 || c.CPU.TotalFree != 0 || c.CPU.MaxFreeOnNode != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// TestSmallChangesOfCapacityWriteNothing: less than a twentieth of what the node can
// give.
func TestSmallChangesOfCapacityWriteNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Nodes: []oscarsim.Node{{Name: "n", CPU: 4000, Memory: 8 * gib}}})
		r.start()
		r.eventually("the capacity is reported", func() bool { return r.capacity() != nil })
		first := r.capacityRevision()
		for _, used := range []int64{1, 189, 0, 100, 181} {
			r.sim.SetNodes(oscarsim.Node{Name: "n", CPU: 4000, Memory: 8 * gib, UsedCPU: used, UsedMemory: used << 20})
			r.measured()
		}
		if now := r.capacityRevision(); now != first {
			t.Errorf("noise was written: %+v", r.capacity())
		}
		r.sim.SetNodes(oscarsim.Node{Name: "n", CPU: 4000, Memory: 8 * gib, UsedCPU: 200})
		r.eventually("a twentieth is reported", func() bool { return r.capacity().CPU.TotalFree == 3800 })
		r.sim.SetNodes(oscarsim.Node{Name: "n", CPU: 4000, Memory: 8 * gib, UsedCPU: 200, UsedMemory: gib / 2})
		r.eventually("a twentieth of the memory is reported", func() bool { return r.capacity().Memory.TotalFree == 15*gib/2 })
		r.sim.SetNodes(oscarsim.Node{Name: "n", CPU: 4000, Memory: 8 * gib, UsedCPU: 200, UsedMemory: gib / 2}, oscarsim.Node{Name: "o"})
		r.eventually("another node is reported", func() bool { return len(r.capacity().Nodes) == 2 })
	})
}

// TestAnEarlierSessionsCapacityIsNotFresh: the next session writes it again, also when
// nothing has changed.
func TestAnEarlierSessionsCapacityIsNotFresh(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		stop := r.start()
		r.eventually("the capacity is reported", func() bool { return r.capacity() != nil })
		before := r.capacity()
		stop()
		r.start()
		r.eventually("it is written in the new session", func() bool { return r.capacity().Session != before.Session })
		now := r.capacity()
		if now.Session != r.sessionRevision() {
			t.Errorf("session %d, want %d", now.Session, r.sessionRevision())
		}
		now.Session, now.ChangedAt = before.Session, before.ChangedAt
		if diff := cmp.Diff(before, now); diff != "" {
			t.Error(diff)
		}
	})
}

// TestNoCapacityIsBelievedWithoutAnAnswer: a cluster without a metrics server, and no
// Kubernetes to ask instead, reports none. The cluster itself is reported.
func TestNoCapacityIsBelievedWithoutAnAnswer(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{NoMetrics: true})
		r.start()
		r.measured()
		r.eventually("the cluster is reported", func() bool { return r.cluster() != nil })
		if c := r.capacity(); c != nil {
			t.Errorf("%+v", c)
		}
	})
}

// below is a Kubernetes that says what its nodes have.
type below struct {
	kube.Absent
	nodes []kube.Node
	err   error
}

func (b *below) Nodes(context.Context) ([]kube.Node, error) { return b.nodes, b.err }
func (b *below) Sizes(context.Context) ([]kube.Node, error) { return b.nodes, b.err }

func TestCapacityFromKubernetes(t *testing.T) {
	gpuNode := oscarsim.Node{Name: "g", CPU: 4000, Memory: 8 * gib, GPU: 4}
	said := []kube.Node{{Name: "g", Allocatable: kube.Resources{MilliCPU: 4000, MemoryBytes: 8 * gib, GPU: 4}, Requested: kube.Resources{MilliCPU: 500, GPU: 3}}}
	for name, c := range map[string]struct {
		sim      oscarsim.Config
		kube     kube.Interface
		source   record.CapacitySource // empty: nothing is reported
		cpu, gpu int64
	}{
		"no metrics server":                      {oscarsim.Config{NoMetrics: true}, &below{nodes: said}, record.CapacityFromKubernetes, 3500, 1},
		"no metrics server and no right to look": {oscarsim.Config{NoMetrics: true}, &below{err: fmt.Errorf("list: %w", kube.ErrDenied)}, "", 0, 0},
		"OSCAR does not say which GPUs are free": {oscarsim.Config{Nodes: []oscarsim.Node{gpuNode}}, &below{nodes: said}, record.CapacityFromKubernetes, 3500, 1},
		"nobody else does":                       {oscarsim.Config{Nodes: []oscarsim.Node{gpuNode}}, kube.Absent{}, record.CapacityFromOscar, 4000, 4},
		"who could does not":                     {oscarsim.Config{Nodes: []oscarsim.Node{gpuNode}}, &below{err: errors.New("no answer")}, "", 0, 0},
		"no GPUs, so OSCAR is enough":            {oscarsim.Config{}, &below{err: errors.New("no answer")}, record.CapacityFromOscar, 3500, 0},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, c.sim)
				r.start(func(cfg *syncer.Config) { cfg.Kube = c.kube })
				if c.source == "" {
					r.measured()
					if got := r.capacity(); got != nil {
						t.Errorf("%+v", got)
					}
					return
				}
				r.eventually("the capacity is reported", func() bool { return r.capacity() != nil })
				got := r.capacity()
				if n := got.Nodes[0]; got.Source != c.source || got.CPU.TotalFree != c.cpu || n.GPU.Free != c.gpu || n.HasGPU != (n.GPU.Allocatable > 0) {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// TestALargeClustersCapacityIsABoundedRecord: the largest nodes are listed, the others
// are one sum.
func TestALargeClustersCapacityIsABoundedRecord(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		var nodes []oscarsim.Node
		for i := range 1000 {
			nodes = append(nodes, oscarsim.Node{Name: fmt.Sprintf("node-%04d.of-a-cluster-with-long-names.example.org", i), CPU: int64(1000 + i*10), Memory: gib})
		}
		r := newRig(t, oscarsim.Config{Nodes: nodes})
		r.start()
		r.eventually("the capacity is reported", func() bool { return r.capacity() != nil })
		got := r.capacity()
		if len(got.Nodes) != record.MaxCapacityNodes || got.Unlisted.Nodes != 800 || got.Nodes[0].CPU.Allocatable != 10990 || got.CPU.MaxFreeOnNode != 10990 {
			t.Errorf("%d nodes, %+v not listed, first %+v", len(got.Nodes), got.Unlisted, got.Nodes[0])
		}
		listed := got.Unlisted.CPU.Free
		for _, n := range got.Nodes {
			listed += n.CPU.Free
		}
		if listed != got.CPU.TotalFree || listed != 1000*1000+10*999*1000/2 {
			t.Errorf("nodes have %d, the sum is %d", listed, got.CPU.TotalFree)
		}
		if kv, _ := r.mirror.Snapshot().KV(record.CapacityKey(clusterID)); len(kv.Value) > 64<<10 {
			t.Errorf("the record has %d bytes", len(kv.Value))
		}
	})
}

// told is a Kubernetes that tells when there may be more or less room.
type told struct {
	below
	changed chan func()
}

func (k *told) WatchCapacity(ctx context.Context, changed func()) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case k.changed <- changed:
		}
	}
}

// TestThatTheLastRoomIsGoneIsToldAtOnce: not when the next look is due, nor 15 s after the last
// report. That there is more can wait.
func TestThatTheLastRoomIsGoneIsToldAtOnce(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Nodes: []oscarsim.Node{{Name: "n", CPU: 4000, Memory: 8 * gib, UsedCPU: 2000}}})
		k := &told{below: below{err: errors.New("no answer")}, changed: make(chan func())}
		r.start(slow, func(c *syncer.Config) { c.CapacityEvery, c.Kube = never, k })
		r.eventually("the capacity is reported", func() bool { return r.capacity() != nil })
		r.sim.SetNodes(oscarsim.Node{Name: "n", CPU: 4000, Memory: 8 * gib, UsedCPU: 4000})
		(<-k.changed)()
		r.eventually("the room is gone", func() bool { return r.capacity().CPU.TotalFree == 0 })
		if c := r.capacity(); c.LookEvery != int64(never.Seconds()) {
			t.Errorf("it looks every %d s", c.LookEvery)
		}
		before, looks := r.capacityRevision(), r.sim.Calls()[oscarsim.OpStatus]
		r.sim.SetNodes(oscarsim.Node{Name: "n", CPU: 4000, Memory: 8 * gib})
		(<-k.changed)()
		r.eventually("it looks again", func() bool { return r.sim.Calls()[oscarsim.OpStatus] > looks })
		r.sim.SetNodes(oscarsim.Node{Name: "n", CPU: 4000, Memory: 8 * gib, UsedCPU: 4000})
		(<-k.changed)()
		r.eventually("and again", func() bool { return r.sim.Calls()[oscarsim.OpStatus] > looks+1 })
		if now := r.capacityRevision(); now != before {
			t.Errorf("that there was more was written before its time: %+v", r.capacity())
		}
	})
}

// TestWhatPodsHaveAskedForIsNotFree, although they do not use it: no other pod gets it.
func TestWhatPodsHaveAskedForIsNotFree(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Nodes: []oscarsim.Node{{Name: "n", CPU: 4000, Memory: 8 * gib, UsedCPU: 100}, {Name: "o", CPU: 1000, Memory: gib, UsedCPU: 900}}})
		asked := []kube.Node{
			{Name: "n", Allocatable: kube.Resources{MilliCPU: 4000, MemoryBytes: 8 * gib}, Requested: kube.Resources{MilliCPU: 4000, MemoryBytes: gib}},
			{Name: "o", Allocatable: kube.Resources{MilliCPU: 1000, MemoryBytes: gib}, Requested: kube.Resources{MilliCPU: 200}},
		}
		r.start(func(c *syncer.Config) { c.Kube = &below{nodes: asked} })
		r.eventually("the capacity is reported", func() bool { return r.capacity() != nil })
		if c := r.capacity(); c.CPU.TotalFree != 100 || c.CPU.MaxFreeOnNode != 100 || c.Memory.MaxFreeOnNode != 7*gib || c.Source != record.CapacityFromOscar {
			t.Errorf("%+v", c)
		}
	})
}

// failing is a Kubernetes that answers no more, and again.
type failing struct {
	kube.Absent
	fails atomic.Bool
}

func (k *failing) Nodes(context.Context) ([]kube.Node, error) {
	if k.fails.Load() {
		return nil, errors.New("no answer")
	}
	return []kube.Node{{Name: "n", Allocatable: kube.Resources{MilliCPU: 4000, MemoryBytes: gib}}}, nil
}

// TestWhatCannotBeMeasuredAnyMoreIsNotBelieved: what was free before stands for nothing, until
// it is measured again.
func TestWhatCannotBeMeasuredAnyMoreIsNotBelieved(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{NoMetrics: true})
		k := &failing{}
		r.start(func(c *syncer.Config) { c.Kube = k })
		r.eventually("the capacity is reported", func() bool { return r.capacity() != nil })
		k.fails.Store(true)
		r.eventually("it is not known any more", func() bool { return r.capacity().FailingSince != nil })
		if c := r.capacity(); !strings.Contains(c.Message, "no answer") || c.CPU.TotalFree != 4000 {
			t.Errorf("%+v", c)
		}
		k.fails.Store(false)
		r.eventually("it is known again", func() bool { return r.capacity().FailingSince == nil })
	})
}

package syncer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/oscar"
)

// What is free is rounded down to these, and written when a node's has changed by a
// part of what it can give: a cluster on which nothing happens writes nothing.
const (
	roundMilliCPU = 10
	roundMemory   = 1 << 20
	changedPart   = 20
)

// capacities measures and reports what the cluster has free, first at once: what an
// earlier session wrote is not believed any more. While jobs are assigned to the cluster
// it looks every CapacityEvery, else as often as it compares everything.
func (t *term) capacities(ctx context.Context) {
	last := ""
	for first := true; ; first = false {
		err := t.reportCapacity(ctx)
		if first {
			close(t.measured)
		}
		if ctx.Err() != nil {
			return
		}
		// A cluster that cannot be measured says so once, not four times a minute.
		if said := fmt.Sprint(err); err != nil && said != last {
			t.log.Warn("what the cluster has free is not known; it gets no jobs", "error", err)
			last = said
		} else if err == nil {
			last = ""
		}
		jitter := 0.9 + 0.2*rand.Float64() //nolint:gosec // spreads load
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(float64(t.capacityPause(err)) * jitter)):
		}
	}
}

func (t *term) capacityPause(err error) time.Duration {
	for range t.mirror.Snapshot().Prefix(record.AssignmentsPrefix(t.cfg.ClusterID)) {
		return t.cfg.CapacityEvery
	}
	if err != nil {
		return t.cfg.CapacityEvery
	}
	return max(t.cfg.CapacityEvery, t.cfg.Resync)
}

// reportCapacity writes observed/capacity when it is news.
func (t *term) reportCapacity(ctx context.Context) error {
	measured, err := t.measure(ctx)
	if err != nil {
		return err
	}
	measured.Session = t.session.CreateRevision()
	key, clusterKey := record.CapacityKey(t.cfg.ClusterID), record.DesiredClusterKey(t.cfg.ClusterID)
	if kv, ok := t.mirror.Snapshot().KV(key); ok {
		// Nobody else writes it, so the mirror knows the last one.
		if known, err := store.Decode[record.Capacity](kv); err == nil && !worthTelling(known, measured) {
			return nil
		}
	}
	_, err = t.cfg.Store.Update(ctx, store.Update{
		Keys: []string{t.session.Key(), key, clusterKey},
		Build: func(read store.View, tx *store.Txn) error {
			c, err := t.serves(read.KV(clusterKey))
			if err != nil {
				return err
			}
			if c.State == record.ClusterRemoved {
				return nil // it has its last orders to do, and gets no jobs
			}
			measured.ChangedAt = record.At(t.cfg.Now())
			tx.ExpectSession(t.session)
			tx.Expect(clusterKey)
			tx.Expect(key)
			tx.Put(key, measured)
			return nil
		},
	})
	switch {
	case errors.Is(err, store.ErrSessionLost):
		t.lose(errSessionLost)
	case errors.Is(err, errNotRegistered), errors.Is(err, errOtherCluster):
		t.lose(err)
	}
	return err
}

// measure asks OSCAR what its nodes have free, and Kubernetes where OSCAR cannot say:
// without a metrics server it answers 500, and of GPUs it never says which are taken.
func (t *term) measure(ctx context.Context) (*record.Capacity, error) {
	nodes, err := t.cfg.OSCAR.Nodes(ctx)
	gpus := slices.ContainsFunc(nodes, func(n oscar.Node) bool { return n.GPU > 0 })
	if err == nil && !gpus {
		return capacityOf(record.CapacityFromOscar, fromOscar(nodes)), nil
	}
	if err != nil && oscar.StatusOf(err) < 500 {
		return nil, err // it is not there, or refuses us
	}
	below, asked := t.cfg.Kube.Nodes(ctx)
	switch {
	case asked == nil:
		return capacityOf(record.CapacityFromKubernetes, fromKubernetes(below)), nil
	case err == nil && errors.Is(asked, kube.ErrAbsent):
		return capacityOf(record.CapacityFromOscar, fromOscar(nodes)), nil
	}
	return nil, errors.Join(err, asked)
}

// fromOscar are the nodes that pods can be put on. Where OSCAR is the only one to ask,
// every GPU counts as free.
func fromOscar(nodes []oscar.Node) []record.CapacityNode {
	var out []record.CapacityNode
	for _, n := range nodes {
		if n.Ready && !n.Interlink {
			out = append(out, capacityNode(n.Name, kube.Resources{MilliCPU: n.MilliCPU, MemoryBytes: n.MemoryBytes, GPU: n.GPU},
				kube.Resources{MilliCPU: n.TakenMilliCPU, MemoryBytes: n.TakenMemory}))
		}
	}
	return out
}

func fromKubernetes(nodes []kube.Node) []record.CapacityNode {
	var out []record.CapacityNode
	for _, n := range nodes {
		out = append(out, capacityNode(n.Name, n.Allocatable, n.Requested))
	}
	return out
}

// capacityNode rounds down what is free. More may be taken than there is: nothing is
// free then.
func capacityNode(name string, all, taken kube.Resources) record.CapacityNode {
	free := func(all, taken, round int64) int64 { return max(all-max(taken, 0), 0) / round * round }
	return record.CapacityNode{
		Name:   name,
		CPU:    record.NodeAmount{Allocatable: max(all.MilliCPU, 0), Free: free(all.MilliCPU, taken.MilliCPU, roundMilliCPU)},
		Memory: record.NodeMemory{Allocatable: max(all.MemoryBytes, 0), Free: free(all.MemoryBytes, taken.MemoryBytes, roundMemory)},
		GPU:    record.NodeAmount{Allocatable: max(all.GPU, 0), Free: free(all.GPU, taken.GPU, 1)},
		HasGPU: all.GPU > 0, Status: record.NodeReady,
	}
}

// capacityOf sums up, and lists the nodes that can give most.
func capacityOf(source record.CapacitySource, nodes []record.CapacityNode) *record.Capacity {
	slices.SortFunc(nodes, func(a, b record.CapacityNode) int {
		return cmp.Or(
			cmp.Compare(b.GPU.Allocatable, a.GPU.Allocatable), cmp.Compare(b.CPU.Allocatable, a.CPU.Allocatable),
			cmp.Compare(b.Memory.Allocatable, a.Memory.Allocatable), cmp.Compare(a.Name, b.Name))
	})
	c := &record.Capacity{V: record.Version, Source: source, Nodes: []record.CapacityNode{}}
	for i, n := range nodes {
		c.CPU.TotalFree += n.CPU.Free
		c.Memory.TotalFree += n.Memory.Free
		c.CPU.MaxFreeOnNode = max(c.CPU.MaxFreeOnNode, n.CPU.Free)
		c.Memory.MaxFreeOnNode = max(c.Memory.MaxFreeOnNode, n.Memory.Free)
		if i < record.MaxCapacityNodes {
			c.Nodes = append(c.Nodes, n)
			continue
		}
		if c.Unlisted == nil {
			c.Unlisted = &record.CapacityRest{}
		}
		rest := c.Unlisted
		rest.Nodes++
		rest.CPU = record.NodeAmount{Allocatable: rest.CPU.Allocatable + n.CPU.Allocatable, Free: rest.CPU.Free + n.CPU.Free}
		rest.Memory = record.NodeMemory{Allocatable: rest.Memory.Allocatable + n.Memory.Allocatable, Free: rest.Memory.Free + n.Memory.Free}
		rest.GPU = record.NodeAmount{Allocatable: rest.GPU.Allocatable + n.GPU.Allocatable, Free: rest.GPU.Free + n.GPU.Free}
	}
	return c
}

// worthTelling says whether a capacity differs enough from the one that was written:
// it is of another session or source, there are other nodes, a GPU is taken or free, or a node
// has a twentieth more or less of what it can give.
func worthTelling(before, now *record.Capacity) bool {
	if before.Session != now.Session || before.Source != now.Source {
		return true
	}
	var rest [2]record.CapacityRest
	for i, c := range []*record.Capacity{before, now} {
		if c.Unlisted != nil {
			rest[i] = *c.Unlisted
		}
	}
	if rest[0].Nodes != rest[1].Nodes || nodeChanged(asNode(rest[0]), asNode(rest[1])) {
		return true
	}
	return !slices.EqualFunc(before.Nodes, now.Nodes, func(a, b record.CapacityNode) bool { return !nodeChanged(a, b) })
}

func asNode(r record.CapacityRest) record.CapacityNode {
	return record.CapacityNode{CPU: r.CPU, Memory: r.Memory, GPU: r.GPU}
}

func nodeChanged(a, b record.CapacityNode) bool {
	much := func(a, b, all int64) bool { return a != b && max(a-b, b-a) >= all/changedPart }
	return a.Name != b.Name || a.Status != b.Status || a.GPU != b.GPU ||
		a.CPU.Allocatable != b.CPU.Allocatable || a.Memory.Allocatable != b.Memory.Allocatable ||
		much(a.CPU.Free, b.CPU.Free, b.CPU.Allocatable) || much(a.Memory.Free, b.Memory.Free, b.Memory.Allocatable)
}

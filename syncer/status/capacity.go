package status

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oscarfed/oscarfed/internal/signal"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// What is free is rounded down to these, and written when a node's has changed by a
// part of what it can give: a cluster on which nothing happens writes nothing.
const (
	roundMilliCPU = 10
	roundMemory   = 1 << 20
	changedPart   = 20
)

// lookAgain is the shortest pause between two looks, and lookShare how many times as long as
// a look it is at least.
const (
	lookAgain = 5 * time.Second
	lookShare = 10
)

// capacities measures and reports what the cluster has free, first at once: what an
// earlier session wrote is not believed any more. While jobs are assigned to the cluster
// it looks every CapacityEvery, else as often as it compares everything; with Kubernetes
// also when there may be more or less room there.
func (s *Status) capacities(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	changed := signal.New()
	watching.Go(func() { s.watchRoom(ctx, changed) })
	var failing capacityFailing
	for first := true; ; first = false {
		began := s.session.Now()
		wait, err := s.reportCapacity(ctx)
		if first {
			close(s.measured)
		}
		if ctx.Err() != nil {
			return
		}
		s.capacityFails(ctx, &failing, began, err)
		jitter := 0.9 + 0.2*rand.Float64() //nolint:gosec // spreads load
		pause := time.Duration(float64(s.capacityPause(err)) * jitter)
		if wait > 0 {
			pause = min(pause, wait)
		}
		again := min(max(lookAgain, lookShare*s.session.Now().Sub(began)), s.cfg.CapacityEvery)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			continue
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again - s.session.Now().Sub(began)):
		}
	}
}

// watchRoom is told when there may be more or less room, where Kubernetes tells.
func (s *Status) watchRoom(ctx context.Context, changed signal.Signal) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = time.Second, roomWatchDenied
	for {
		err := s.kube.WatchCapacity(ctx, changed.Send)
		if ctx.Err() != nil || errors.Is(err, kube.ErrAbsent) {
			return
		}
		pause := wait.NextBackOff()
		if errors.Is(err, kube.ErrDenied) {
			pause = roomWatchDenied
		}
		s.session.Log.Warn("changes of what the nodes have free are seen late: they cannot be watched", "error", err, "pause", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// capacityFailing is since when looks fail without a break.
type capacityFailing struct {
	since time.Time
	looks int
	told  string
}

// capacityFails notes the outcome of a look. A cluster that cannot be measured says so once in
// the log, not four times a minute, and in what it reports after the second look: what was free
// before is not believed then.
func (s *Status) capacityFails(ctx context.Context, f *capacityFailing, began time.Time, err error) {
	if err == nil {
		*f = capacityFailing{}
		return
	}
	if said := err.Error(); said != f.told {
		s.session.Log.Warn("what the cluster has free is not known; it gets no jobs", "error", err)
		f.told = said
	}
	if f.looks++; f.looks == 1 {
		f.since = began
	}
	kv, ok := s.session.Mirror.Snapshot().KV(record.CapacityKey(s.session.ID))
	if f.looks < 2 || !ok {
		return
	}
	known, err := store.Decode[record.Capacity](kv)
	if err != nil || known.Session != s.session.Lease.CreateRevision() || known.FailingSince != nil {
		return
	}
	failing := *known
	failing.FailingSince, failing.Message = new(record.At(f.since)), manager.Cut(f.told, manager.MaxMessage)
	if err := s.writeCapacity(ctx, &failing); err != nil && ctx.Err() == nil {
		s.session.Log.Debug("that what is free is not known was not reported; it is again", "error", err)
	}
}

func (s *Status) capacityPause(err error) time.Duration {
	for range s.session.Mirror.Snapshot().Prefix(record.AssignmentsPrefix(s.session.ID)) {
		return s.cfg.CapacityEvery
	}
	if err != nil {
		return s.cfg.CapacityEvery
	}
	return s.lookEvery()
}

// lookEvery is the longest pause between two looks.
func (s *Status) lookEvery() time.Duration { return max(s.cfg.CapacityEvery, s.cfg.Resync) }

// reportCapacity looks, and writes observed/capacity when it is news: that there is less at
// once, anything else no sooner than CapacityEvery after the last write. wait is how long that
// is then; 0 for nothing to wait for.
func (s *Status) reportCapacity(ctx context.Context) (wait time.Duration, err error) {
	measured, err := s.measure(ctx)
	if err != nil {
		return 0, err
	}
	measured.Session, measured.LookEvery = s.session.Lease.CreateRevision(), int64(s.lookEvery()/time.Second)
	if kv, ok := s.session.Mirror.Snapshot().KV(record.CapacityKey(s.session.ID)); ok {
		// Only this session writes it, so the mirror knows the last one.
		if known, err := store.Decode[record.Capacity](kv); err == nil && known.Session == measured.Session && known.FailingSince == nil {
			if !worthTelling(known, measured) {
				return 0, nil
			}
			if rest := s.written.Add(s.cfg.CapacityEvery).Sub(s.session.Now()); rest > 0 && !lessRoom(known, measured) {
				return rest, nil
			}
		}
	}
	return 0, s.writeCapacity(ctx, measured)
}

// lessRoom says whether a node has less than was told, or is gone.
func lessRoom(before, now *record.Capacity) bool {
	free := map[string]record.CapacityNode{}
	for _, n := range now.Nodes {
		free[n.Name] = n
	}
	return slices.ContainsFunc(before.Nodes, func(b record.CapacityNode) bool {
		n := free[b.Name]
		return nodeChanged(b, n) && (n.CPU.Free < b.CPU.Free || n.Memory.Free < b.Memory.Free || n.GPU.Free < b.GPU.Free)
	})
}

// writeCapacity writes observed/capacity under the session.
func (s *Status) writeCapacity(ctx context.Context, measured *record.Capacity) error {
	key, clusterKey := record.CapacityKey(s.session.ID), record.DesiredClusterKey(s.session.ID)
	_, err := s.session.Store.Update(ctx, store.Update{
		Keys: []string{s.session.Lease.Key(), key, clusterKey},
		Build: func(read store.View, tx *store.Txn) error {
			c, err := s.session.Serves(read.KV(clusterKey))
			if err != nil {
				return err
			}
			if c.State == record.ClusterRemoved {
				return nil // it has its last orders to do, and gets no jobs
			}
			measured.ChangedAt = record.At(s.session.Now())
			tx.ExpectSession(s.session.Lease)
			tx.Expect(clusterKey)
			tx.Expect(key)
			tx.Put(key, measured)
			return nil
		},
	})
	if err == nil {
		s.written = s.session.Now()
	}
	s.session.LoseIfOver(err)
	return err
}

// measure asks OSCAR what its nodes have free, and Kubernetes where OSCAR cannot say:
// without a metrics server it answers 500, and of GPUs it never says which are taken. OSCAR
// tells what is used, half a minute late, and Kubernetes what pods have asked for, which is
// what its scheduler goes by: a node has no more free than either says.
func (s *Status) measure(ctx context.Context) (*record.Capacity, error) {
	nodes, err := s.oscar.Nodes(ctx)
	gpus := slices.ContainsFunc(nodes, func(n manager.Node) bool { return n.GPU > 0 })
	if err != nil && manager.StatusOf(err) < 500 {
		return nil, err // it is not there, or refuses us
	}
	below, asked := s.kube.Nodes(ctx)
	switch {
	case err == nil && !gpus && asked == nil:
		return capacityOf(record.CapacityFromOscar, within(fromOscar(nodes), fromKubernetes(below))), nil
	case err == nil && !gpus:
		return capacityOf(record.CapacityFromOscar, fromOscar(nodes)), nil
	case asked == nil:
		return capacityOf(record.CapacityFromKubernetes, fromKubernetes(below)), nil
	case err == nil && errors.Is(asked, kube.ErrAbsent):
		return capacityOf(record.CapacityFromOscar, fromOscar(nodes)), nil
	}
	return nil, errors.Join(err, asked)
}

// fromOscar are the nodes that pods can be put on. Where OSCAR is the only one to ask,
// every GPU counts as free.
func fromOscar(nodes []manager.Node) []record.CapacityNode {
	var out []record.CapacityNode
	for _, n := range nodes {
		if n.Ready && !n.Interlink {
			out = append(out, capacityNode(n.Name, kube.Resources{MilliCPU: n.MilliCPU, MemoryBytes: n.MemoryBytes, GPU: n.GPU},
				kube.Resources{MilliCPU: n.TakenMilliCPU, MemoryBytes: n.TakenMemory}))
		}
	}
	return out
}

// within takes off what pods have asked for and do not use yet.
func within(nodes, limits []record.CapacityNode) []record.CapacityNode {
	most := map[string]record.CapacityNode{}
	for _, l := range limits {
		most[l.Name] = l
	}
	for i := range nodes {
		if l, known := most[nodes[i].Name]; known {
			nodes[i].CPU.Free = min(nodes[i].CPU.Free, l.CPU.Free)
			nodes[i].Memory.Free = min(nodes[i].Memory.Free, l.Memory.Free)
		}
	}
	return nodes
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

// roomWatchDenied is the pause before Kubernetes is asked again for what it does not allow.
const roomWatchDenied = 5 * time.Minute

package jobs_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// nemesis makes faults, one after another, until it is stopped; then it mends all.
type nemesis struct {
	p    *proof
	load *load
	draw *rand.Rand
	end  chan struct{}
	done chan struct{}
	// down are the clusters that are lost and come back later; true for those without a
	// syncer.
	down map[string]bool
	// orders are what is done between two faults, at a moment that the load chooses.
	orders chan func()

	check *check // of the present etcd
	// restored says that etcd was, or is being, restored.
	restored bool

	mu   sync.Mutex
	made map[string]int
}

func newNemesis(p *proof, l *load, c *check) *nemesis {
	return &nemesis{p: p, load: l, draw: p.rand(1), end: make(chan struct{}), done: make(chan struct{}), down: map[string]bool{},
		orders: make(chan func()), check: c, made: map[string]int{}}
}

func (n *nemesis) start() {
	go func() {
		defer close(n.done)
		for {
			select {
			case <-n.end:
				return
			case do := <-n.orders:
				do()
			case <-time.After(time.Duration(100+n.draw.IntN(300)) * time.Millisecond):
				n.strike()
			}
		}
	}()
}

// order has something done between two faults, and waits for it.
func (n *nemesis) order(do func()) {
	done := make(chan struct{})
	ordered := func() {
		defer close(done)
		do()
	}
	select {
	case n.orders <- ordered:
		<-done
	case <-n.done: // a fault could not be made; the test has failed
	}
}

// strike makes one fault.
func (n *nemesis) strike() {
	id := n.p.ids[n.draw.IntN(len(n.p.ids))]
	cluster := n.p.Cluster(id)
	switch k := n.draw.IntN(22); {
	case k < 3: // killed, and its successor comes at once
		if _, lost := n.down[id]; lost {
			return
		}
		n.note("syncer killed")
		cluster.Kill()
		cluster.Start()
	case k < 5: // away for a while
		if _, lost := n.down[id]; lost || len(n.down) > 3 {
			return
		}
		what := n.draw.IntN(3)
		n.note([]string{"syncer lost", "OSCAR lost", "cluster lost"}[what])
		if n.down[id] = what != 1; n.down[id] {
			cluster.Kill()
		}
		if what != 0 {
			n.must(away(cluster.Sim))
		}
	case k < 8: // back
		for _, id := range slices.Sorted(maps.Keys(n.down)) {
			n.note("lost one back")
			n.back(id)
			break
		}
	case k >= 20: // it is made again, by a token that is fresh then
		if n.lately() {
			return
		}
		federation, at := n.draw.IntN(federationCount), n.draw.IntN(clusterCount)
		if err := n.p.remove(federation, at); err == nil && ofUser(federation) {
			n.note("service of a user deleted by hand")
		} else if err == nil {
			n.note("service deleted by hand")
		}
	case k < 9:
		n.note("OSCAR killed")
		cluster.Sim.Kill()
	case k < 10:
		n.note("control plane killed")
		n.p.replace(n.p.World, n.draw.IntN(2))
	default:
		kinds := []string{oscarsim.Fault500After, oscarsim.FaultLate, oscarsim.FaultRefuse, oscarsim.FaultHang, oscarsim.Fault500, oscarsim.FaultDeny}
		kind := kinds[n.draw.IntN(len(kinds))]
		n.note("OSCAR: " + kind)
		err := cluster.Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpJob, Fault: kind, Count: 1 + n.draw.IntN(20), Delay: time.Duration(n.draw.IntN(1500)) * time.Millisecond})
		if err != nil {
			n.p.t.Error(err)
		}
	}
}

// back brings one back that was lost.
func (n *nemesis) back(id string) {
	n.must(back(n.p.Cluster(id).Sim))
	if n.down[id] {
		n.p.Cluster(id).Start()
	}
	delete(n.down, id)
}

func (n *nemesis) must(err error) {
	if err != nil {
		n.p.t.Error(err)
	}
}

func (n *nemesis) restart() {
	n.note("etcd restarted")
	n.p.RestartEtcd()
}

// restore puts etcd back to where it was a moment ago, while everything else goes on.
// Nothing is accepted in that moment: a job accepted then would be lost with the store, and
// the test could not tell.
func (n *nemesis) restore() {
	n.note("etcd restored")
	n.load.held.Lock()
	defer n.load.held.Unlock()
	n.restored = true
	backup := n.p.Backup()
	for range 2 + n.draw.IntN(6) { // they go on as well
		n.pause(time.Duration(100+n.draw.IntN(300)) * time.Millisecond)
		n.strike()
	}
	old := n.check
	n.p.RestoreEtcd(backup, true)
	n.check = n.p.checks(n.p.Store, true)
	old.finish()
}

// lately says whether a restore is so recent that not every cluster has told of its Jobs
// since. A Job that was made after the backup, and is gone when they are listed, leaves
// no trace: docs/jobs.md. So no hand deletes a service with its Jobs meanwhile.
func (n *nemesis) lately() bool {
	if !n.restored {
		return false
	}
	keys := []string{record.MetaKey}
	for _, id := range n.p.ids {
		keys = append(keys, record.ObservedClusterKey(id))
	}
	view, err := n.p.Store.Read(n.p.t.Context(), keys...)
	if err != nil {
		return true
	}
	kv, _ := view.KV(record.MetaKey)
	meta, err := store.Decode[record.Meta](kv)
	if err != nil || meta.Epoch == "" {
		return true
	}
	return slices.ContainsFunc(keys[1:], func(key string) bool {
		kv, _ := view.KV(key)
		c, err := store.Decode[record.ObservedCluster](kv)
		return err != nil || c.JobsEpoch != meta.Epoch
	})
}

func (n *nemesis) pause(d time.Duration) {
	select {
	case <-n.end:
	case <-time.After(d):
	}
}

// stop mends everything.
func (n *nemesis) stop() {
	close(n.end)
	<-n.done
	for _, id := range n.p.ids {
		n.p.Cluster(id).Sim.ClearFaults()
		if _, lost := n.down[id]; lost {
			n.back(id)
		}
	}
}

func (n *nemesis) note(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.made[what]++
}

func (n *nemesis) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(n.made)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, n.made[what]))
	}
	return strings.Join(parts, ", ")
}

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
)

// nemesis makes faults, one after another, until it is stopped; then it mends all.
type nemesis struct {
	p    *proof
	load *load
	draw *rand.Rand
	end  chan struct{}
	done chan struct{}
	down map[string]bool // clusters without a syncer

	restarted, restored bool // etcd

	mu   sync.Mutex
	made map[string]int
}

func newNemesis(p *proof, l *load) *nemesis {
	return &nemesis{p: p, load: l, draw: p.rand(1), end: make(chan struct{}), done: make(chan struct{}), down: map[string]bool{}, made: map[string]int{}}
}

func (n *nemesis) start() {
	go func() {
		defer close(n.done)
		for n.pause(time.Duration(100+n.draw.IntN(300)) * time.Millisecond) {
			n.strike()
		}
	}()
}

func (n *nemesis) pause(d time.Duration) bool {
	select {
	case <-n.end:
		return false
	case <-time.After(d):
		return true
	}
}

// strike makes one fault.
func (n *nemesis) strike() {
	switch done := int(n.load.done.Load()); {
	case !n.restarted && done > n.p.jobs/4:
		n.restarted = true
		n.note("etcd restarted")
		n.p.RestartEtcd()
		return
	case !n.restored && done > n.p.jobs/2:
		n.restored = true
		n.note("etcd restored")
		n.restore()
		return
	}
	id := n.p.ids[n.draw.IntN(len(n.p.ids))]
	cluster := n.p.Cluster(id)
	switch k := n.draw.IntN(20); {
	case k < 3: // killed, and its successor comes at once
		if n.down[id] {
			return
		}
		n.note("syncer killed")
		cluster.Kill()
		cluster.Start()
	case k < 5: // away for a while
		if n.down[id] || len(n.down) > 3 {
			return
		}
		n.note("cluster lost")
		cluster.Kill()
		n.down[id] = true
	case k < 8: // back
		for id := range n.down {
			n.note("cluster back")
			n.p.Cluster(id).Start()
			delete(n.down, id)
			break
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

// restore puts etcd back to where it was a moment ago, while everybody else goes on.
// Nothing is accepted in that moment: what was would be lost with the store, and nobody
// could know of it.
func (n *nemesis) restore() {
	n.load.held.Lock()
	defer n.load.held.Unlock()
	backup := n.p.Backup()
	n.pause(2 * time.Second)
	n.p.RestoreEtcd(backup, true)
}

// stop mends everything.
func (n *nemesis) stop() {
	close(n.end)
	<-n.done
	for _, id := range n.p.ids {
		n.p.Cluster(id).Sim.ClearFaults()
		if n.down[id] {
			n.p.Cluster(id).Start()
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

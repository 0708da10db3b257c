package linear

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/test/process"
)

// Tally counts faults by kind.
type Tally struct {
	mu sync.Mutex
	n  map[string]int
}

// NewTally counts from 0.
func NewTally() *Tally { return &Tally{n: map[string]int{}} }

func (t *Tally) add(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n[kind]++
}

// Counts are the faults by kind.
func (t *Tally) Counts() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.n)
}

// fault is one that was begun; undo ends it.
type fault struct {
	kind string
	// long is one that lasts until a control plane gives up.
	long bool
	undo func() error
}

// nemesis does harm until ctx ends, one fault after another, and undoes each.
type nemesis struct {
	world *World
	rng   *rand.Rand
	// long lets faults last that are long.
	long  bool
	tally *Tally
	next  func(ctx context.Context, n *nemesis) (fault, error)
}

// hold is how long a fault lasts, and calm the pause before the next one.
const (
	holdLeast, holdMore = 100 * time.Millisecond, 3500 * time.Millisecond
	calmMore            = 1200 * time.Millisecond
	// holdLong is more than a control plane waits for etcd.
	holdLong = 17 * time.Second
)

func (n *nemesis) run(ctx context.Context) error {
	for n.pause(ctx, time.Duration(n.rng.Int64N(int64(calmMore)))) {
		f, err := n.next(ctx, n)
		if err != nil {
			return fmt.Errorf("%s: %w", f.kind, err)
		}
		n.tally.add(f.kind)
		hold := holdLeast + time.Duration(n.rng.Int64N(int64(holdMore)))
		if n.long && f.long {
			hold = holdLong
		}
		n.pause(ctx, hold)
		if err := f.undo(); err != nil {
			return fmt.Errorf("undo %s: %w", f.kind, err)
		}
	}
	return nil
}

// pause waits, and says whether to go on.
func (n *nemesis) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// killing ends or freezes one process.
func killing(ctx context.Context, n *nemesis) (fault, error) {
	ctx = context.WithoutCancel(ctx) // what was killed is started again, whatever ends
	w := n.world
	switch n.rng.IntN(8) {
	case 0, 1:
		i := n.rng.IntN(etcdMembers)
		w.etcd.Kill(i)
		return fault{kind: "etcd killed", undo: func() error { return w.etcd.Restart(i) }}, nil
	case 2, 3, 4:
		name := process.ControlPlaneName(n.rng.IntN(controlPlanes))
		w.Child(name).Kill()
		return fault{kind: "control plane killed", undo: func() error { return w.restart(ctx, name) }}, nil
	case 5:
		id := w.clusters[n.rng.IntN(len(w.clusters))]
		w.Child(id).Kill()
		return fault{kind: "syncer killed", undo: func() error { return w.restart(ctx, id) }}, nil
	case 6:
		c := w.Child(process.ControlPlaneName(n.rng.IntN(controlPlanes)))
		c.Freeze()
		return fault{kind: "control plane frozen", undo: func() error { c.Thaw(); return nil }}, nil
	}
	c := w.Child(w.clusters[n.rng.IntN(len(w.clusters))])
	c.Freeze()
	return fault{kind: "syncer frozen", undo: func() error { c.Thaw(); return nil }}, nil
}

// disturbing puts trouble on the links of one program, or to one member of etcd.
// A control plane that is cut off misses history that etcd then forgets.
func disturbing(ctx context.Context, n *nemesis) (fault, error) {
	if n.rng.IntN(3) == 0 {
		return losing(ctx, n)
	}
	w := n.world
	trouble := troubles()[n.rng.IntN(len(troubles()))]
	var links []*link
	var where string
	switch r := n.rng.IntN(8); {
	case r < 4:
		where, links = "control plane", w.some(process.ControlPlaneName(n.rng.IntN(controlPlanes)), n.rng)
	case r < 6:
		where, links = "syncer", w.some(w.clusters[n.rng.IntN(len(w.clusters))], n.rng)
	default:
		where, links = "etcd peer", []*link{w.peers[n.rng.IntN(len(w.peers))]}
	}
	f := fault{kind: fmt.Sprintf("%s %s", where, trouble), undo: func() error {
		for _, l := range links {
			l.heal()
		}
		return nil
	}}
	for _, l := range links {
		if err := l.disturb(trouble, n.rng); err != nil {
			return f, err
		}
	}
	if where == "control plane" && n.rng.IntN(2) == 0 {
		heal := f.undo
		f.undo = func() error {
			// While etcd has no leader it cannot be told to forget: then it does not.
			if w.Advance(context.WithoutCancel(ctx)) == nil {
				n.tally.add("compaction")
			}
			return heal()
		}
	}
	f.long = where == "control plane" && (trouble == Slow || trouble == HalfOpen) && n.rng.IntN(3) == 0
	return f, nil
}

// losing makes a control plane lose the answers to what it is writing: messages
// between etcd's members are late, so that most of an operation's time is that of a write under
// way, and then nothing comes back. The others go on at full speed.
func losing(ctx context.Context, n *nemesis) (fault, error) {
	w, trouble := n.world, []Trouble{Cut, HalfOpen}[n.rng.IntN(2)]
	f := fault{kind: "answers lost", long: n.rng.IntN(2) == 0}
	var begun []*link
	heal := func(links []*link) {
		for _, l := range links {
			l.heal()
		}
	}
	f.undo = func() error { heal(begun); return nil }
	for _, l := range w.peers {
		begun = append(begun, l)
		if err := l.disturb(Lag, n.rng); err != nil {
			return f, errors.Join(err, f.undo())
		}
	}
	n.pause(ctx, 700*time.Millisecond+time.Duration(n.rng.Int64N(int64(time.Second))))
	for _, l := range w.links[process.ControlPlaneName(n.rng.IntN(controlPlanes))] {
		begun = append(begun, l)
		if err := l.disturb(trouble, n.rng); err != nil {
			return f, errors.Join(err, f.undo())
		}
	}
	heal(w.peers)
	return f, nil
}

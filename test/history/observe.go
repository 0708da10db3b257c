package history

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/world"
)

const (
	// lateWindow is how long after a POST its tombstone is acknowledged at the earliest, when
	// OSCAR has not answered: 300 s after it was sent, which is less after it came.
	lateWindow = 240 * time.Second
	// decideSlack is how much later than its deadline a federation is decided at most, by a
	// control plane that nothing has disturbed.
	decideSlack = time.Minute
	// watchPause lies between two looks at deadlines.
	watchPause = 5 * time.Second
)

// observer sees every change of the store at its time, and judges what only times can show. It is a
// store.Tap.
type observer struct {
	world *world.World
	calm  *calm
	// fail tells what is broken.
	fail func(format string, args ...any)
	// restores says that the store goes back to a backup: what was acknowledged may be forgotten.
	restores bool

	mu sync.Mutex
	// uids are the lives of replicas by the mark of their token, gone when each was first seen to be
	// acknowledged as deleted.
	uids map[string]string
	gone map[string]time.Time
	// secretsLeft are why lives ended whose Secret was left, by cluster and service.
	secretsLeft map[string][]record.Cause
	// deadlines are those of federations under way, by key.
	deadlines map[string][]deadline
	// epoch is the present one of the store.
	epoch string
}

// deadline is one that a control plane must not miss.
type deadline struct {
	// of says what it is the deadline of, and is another one when that has changed.
	of    string
	seen  time.Time
	after time.Duration
	// epochs are those of the store in which it decides; nil for all. A creation from before a restore
	// waits until its clusters have told what stands.
	epochs []string
}

func newObserver(w *world.World, c *calm, fail func(string, ...any)) *observer {
	return &observer{
		world: w, calm: c, fail: fail, uids: map[string]string{}, gone: map[string]time.Time{}, secretsLeft: map[string][]record.Cause{}, deadlines: map[string][]deadline{},
	}
}

// run observes until ctx ends.
func (o *observer) run(ctx context.Context) error {
	mirror := world.Go(ctx, o.world.Store.NewMirror(store.MirrorConfig{Prefixes: []string{record.Root}, Tap: o}).Run)
	for {
		select {
		case <-time.After(watchPause):
			o.overdue()
		case <-ctx.Done():
			return mirror.Stop()
		}
	}
}

// Listed implements store.Tap.
func (o *observer) Listed(kvs []store.KV) {
	o.mu.Lock()
	was := o.deadlines
	o.deadlines = map[string][]deadline{}
	for _, kv := range kvs {
		o.deadlines[kv.Key] = was[kv.Key]
	}
	o.mu.Unlock()
	for _, kv := range kvs {
		o.Changed(kv, false)
	}
}

// Changed implements store.Tap.
func (o *observer) Changed(kv store.KV, deleted bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ref := record.ParseKey(kv.Key)
	if deleted {
		delete(o.deadlines, kv.Key)
		return
	}
	switch ref.Kind {
	case record.KindMeta:
		if m, err := store.Decode[record.Meta](kv); err == nil {
			o.epoch = m.Word()
		}
	case record.KindFederation:
		if f, err := store.Decode[record.Federation](kv); err == nil {
			o.deadlines[kv.Key] = o.deadlinesOf(f, o.deadlines[kv.Key])
		}
	case record.KindDesiredService:
		if d, err := store.Decode[record.Desired](kv); err == nil {
			o.uids[d.Mark] = d.UID
		}
	case record.KindObservedService:
		if r, err := store.Decode[record.Observed](kv); err == nil && r.Phase == record.PhaseDeleted {
			o.acknowledged(ref, r)
		}
	case record.KindDeleted:
		if d, err := store.Decode[record.Deleted](kv); err == nil && d.SecretLeft {
			place := d.ClusterID + "/" + d.ServiceName
			o.secretsLeft[place] = append(o.secretsLeft[place], d.Cause)
		}
	default:
	}
}

// deadlinesOf are those of a federation; what was known before keeps its time.
func (o *observer) deadlinesOf(f *record.Federation, was []deadline) (out []deadline) {
	put := func(of string, from, until record.Time, epochs ...string) {
		d := deadline{of: of, seen: time.Now(), after: until.Sub(from.Time), epochs: epochs}
		for _, w := range was {
			if w.of == d.of {
				d.seen = w.seen
			}
		}
		out = append(out, d)
	}
	if f.Deadline != nil && f.Phase.InFlight() && f.Phase != record.PhaseRollingBack {
		epochs := []string{f.Epoch}
		if f.Phase == record.PhasePreparing {
			epochs = append(epochs, f.Asked)
		}
		put(fmt.Sprint(f.Phase, " since ", f.ChangedAt), f.ChangedAt, *f.Deadline, epochs...)
	}
	if c := f.Change; c != nil {
		put("change "+c.RequestID, c.ProposedAt, c.Deadline)
	}
	return out
}

// overdue says which federations have not been decided by their deadline, although nothing has
// disturbed a control plane that could.
func (o *observer) overdue() {
	since, ok := o.calm.since()
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, list := range o.deadlines {
		for _, d := range list {
			from := d.seen
			if since.After(from) {
				from = since
			}
			if late := time.Since(from) - d.after; late > decideSlack && (d.epochs == nil || slices.Contains(d.epochs, o.epoch)) {
				o.fail("%s is %s, %v after its deadline, and nothing disturbs the control plane", key, d.of, late)
				delete(o.deadlines, key)
			}
		}
	}
}

// acknowledged: when a tombstone is, nothing of its life stands. What a POST has made in this moment
// lives judges.
func (o *observer) acknowledged(ref record.Ref, r *record.Observed) {
	if _, known := o.gone[r.UID]; known || o.restores || r.Operation == "release" {
		return
	}
	o.gone[r.UID] = time.Now()
	c := o.world.Cluster(ref.Cluster)
	view, stands := c.Sim.Service(ref.Name)
	if !stands || o.uids[record.Mark(view.Token)] != r.UID {
		return
	}
	for _, life := range c.Sim.Lives() {
		if life.Token == view.Token && time.Since(life.Made) < watchPause {
			return
		}
	}
	o.fail("%s/%s is acknowledged as deleted, and stands", ref.Cluster, ref.Name)
}

// lives: a life that was acknowledged as deleted did not begin after that, unless OSCAR was asked
// for it long before.
func (o *observer) lives(clusters ...*world.Cluster) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range clusters {
		for _, life := range c.Sim.Lives() {
			gone, ok := o.gone[o.uids[record.Mark(life.Token)]]
			if ok && life.Made.After(gone) && !gone.Before(life.Asked) && gone.Sub(life.Asked) < lateWindow {
				o.fail("%s/%s was made %v after it was acknowledged as deleted, and OSCAR was asked for it %v before that",
					c.ID, life.Service, life.Made.Sub(gone), gone.Sub(life.Asked))
			}
		}
	}
}

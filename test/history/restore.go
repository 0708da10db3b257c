package history

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/linear"
	"github.com/oscarfed/oscarfed/test/world"
)

// Faults that put etcd back to a backup.
const (
	faultBackup  = "back up"
	faultRestore = "restore the backup of"
)

// How etcd is restored: with all control planes stopped, as docs/operations.md says, or below those
// that run.
const (
	restoreStopped = "control planes stopped"
	restoreLive    = "control planes running"
)

const (
	// quiet is how long nothing may be touched after a restore, while nobody decides.
	quiet = 15 * time.Minute
	// secondHistory is added to a seed for the names of the services after a restore.
	secondHistory = 500_000_000
)

// drawRestore draws a backup and its restore for some of the plans: those without guests, people and a
// full etcd, whose other rules do not hold over a restore.
func (d *drawer) drawRestore(rng *rand.Rand) {
	if rng.IntN(5) > 0 || d.plan.Shape.Guests+d.plan.Shape.People > 0 || d.plan.fills() {
		return
	}
	backup := time.Duration(rng.Int64N(int64(d.length)))
	restore := backup + time.Duration(rng.Int64N(int64(d.length)))
	if rng.IntN(2) == 0 {
		restore = 3 * d.length // nobody asks for anything any more
	}
	how := restoreStopped
	if d.plan.Shape.ControlPlanes == 1 && rng.IntN(2) == 0 {
		how = restoreLive
	}
	d.plan.Steps = append(d.plan.Steps,
		Step{At: backup, Fault: &Fault{Kind: faultBackup, On: world.HostEtcd}},
		Step{At: restore, Fault: &Fault{Kind: faultRestore, On: world.HostEtcd, What: how}})
}

// restored is what is known of a restore.
type restored struct {
	// file is the backup, empty before there is one; began is when it was begun.
	file  string
	began time.Time
	// at is when etcd was restored; zero before.
	at time.Time
	// standing are the services that nothing but a person's decision may end or change: uid and
	// generation by cluster/service.
	standing map[string]string
}

// backUp makes a backup. While etcd is away there is none.
func (p *player) backUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	file, began := filepath.Join(p.t.TempDir(), "backup.db"), time.Now()
	if err := storetest.Snapshot(ctx, p.w.Store, file); err == nil {
		p.restore.file, p.restore.began = file, began
	}
}

// goBack puts etcd back to the backup.
func (p *player) goBack(ctx context.Context, f Fault) {
	if p.restore.file == "" {
		return
	}
	hosts := []string{f.On}
	if f.What == restoreStopped {
		for _, pl := range p.planes {
			hosts = append(hosts, pl.name)
		}
	}
	var start []func()
	for _, host := range hosts {
		for !p.take(host) { // until what is wrong with it is over
			<-time.After(time.Second)
		}
		defer p.give(host)
		if host != f.On {
			start = append(start, p.stop(Fault{Kind: faultKill, On: host}))
		}
	}
	p.checking <- struct{}{}
	ordered := map[string]bool{}
	p.w.Rewind(p.restore.file, func(before *store.Store) {
		p.conclude(ctx, before)
		p.orders(ctx, before, ordered)
	})
	p.restart(ctx, ordered)
	<-p.checking
	for i, again := range start {
		p.told = i == 0 // the first one is told
		again()
	}
	p.told = false
}

// restart begins the history anew, after a restore.
func (p *player) restart(ctx context.Context, ordered map[string]bool) {
	p.mu.Lock()
	p.restore.at = time.Now()
	p.operations.Cut()
	next := linear.NewHistory(p.plan.Seed+secondHistory, p.plan.Shape.Names, p.users.clusters[:p.plan.Shape.Clusters])
	next.Seed = p.plan.Seed
	p.operations = next
	p.histories = append(p.histories, next)
	p.mu.Unlock()
	var err error
	if p.replay, err = invariants.NewReplay(p.promises()); err == nil {
		err = p.canaries.hide(p.replay, true)
	}
	if err != nil {
		p.t.Error(err)
		return
	}
	for err = p.replay.Stand(ctx, p.w.Store); errors.Is(err, store.ErrUnavailable); err = p.replay.Stand(ctx, p.w.Store) {
		<-time.After(time.Second)
	}
	if err != nil {
		p.t.Error(err)
		return
	}
	p.orders(ctx, p.w.Store, ordered)
	p.restore.standing = p.standing(ordered)
}

// orders adds the places whose services may be ended, as a store says: those of tombstones, and of
// federations in which something is under way.
func (p *player) orders(ctx context.Context, s *store.Store, out map[string]bool) {
	items, _, err := s.List(ctx, record.Root)
	if err != nil {
		p.t.Error(err)
	}
	for _, kv := range items {
		ref := record.ParseKey(kv.Key)
		switch ref.Kind {
		case record.KindDesiredService:
			if d, err := store.Decode[record.Desired](kv); err != nil || d.Tombstone() {
				out[ref.Cluster+"/"+ref.Name] = true
			}
		case record.KindFederation:
			f, err := store.Decode[record.Federation](kv)
			if err != nil {
				p.t.Error(err)
				continue
			}
			if f.Phase == record.PhaseReady && f.Change == nil && len(f.Leaving) == 0 {
				continue
			}
			members := slices.Concat(f.Members, f.Leaving)
			if f.Change != nil {
				members = append(members, f.Change.Members...)
			}
			for _, m := range members {
				out[m.ClusterID+"/"+m.ServiceName] = true
			}
		}
	}
}

// standing are the services of ours, but for those that may be ended.
func (p *player) standing(ordered map[string]bool) map[string]string {
	out := map[string]string{}
	for i := range p.plan.Shape.All() {
		id := clusterID(i)
		sim := p.w.Cluster(id).Sim
		sim.Settle()
		for _, name := range sim.Services() {
			if view, _ := sim.Service(name); view.Annotations[oscar.AnnotationUID] != "" && !ordered[id+"/"+name] {
				out[id+"/"+name] = view.Annotations[oscar.AnnotationUID] + " of generation " + view.Annotations[oscar.AnnotationGeneration]
			}
		}
	}
	return out
}

// untouched demands, when a restore was the last that happened, that nothing was ended or overwritten by
// itself.
func (p *player) untouched() {
	p.t.Helper()
	if len(p.plan.Steps) == 0 {
		return
	}
	last := p.plan.Steps[len(p.plan.Steps)-1]
	if last.Fault == nil || last.Fault.Kind != faultRestore || p.restore.at.IsZero() {
		return
	}
	<-time.After(quiet)
	now := p.standing(nil)
	for _, at := range slices.Sorted(maps.Keys(p.restore.standing)) {
		if was := p.restore.standing[at]; now[at] != was {
			p.t.Errorf("after the restore, %s was replica %s, nobody has decided about it, and it is %q", at, was, now[at])
		}
	}
}

// conclude checks the promises up to the end of a store.
func (p *player) conclude(ctx context.Context, s *store.Store) {
	p.t.Helper()
	if err := p.canaries.hide(p.replay, false); err != nil {
		p.t.Error(err)
	}
	report, err := p.replay.Finish(ctx, s)
	if err != nil {
		p.t.Errorf("the promises could not be checked: %v", err)
		return
	}
	p.revisions += report.Revisions
	p.transitions = append(p.transitions, report.Transitions()...)
	if report.Revisions > 0 || p.restore.at.IsZero() { // a restored store may go back again before anything is written
		report.Tell(p.t)
	}
}

// witness is the file by which a control plane notices a restore.
func (p *player) witness(name string) string {
	if p.witnesses == "" {
		return ""
	}
	return filepath.Join(p.witnesses, name+".json")
}

// remember gives control planes a place for their witnesses, in a plan with a restore.
func (p *player) remember() {
	if p.plan.Restores() {
		p.witnesses = p.t.TempDir()
	}
}

// current are the operations of callers now.
func (p *player) current() *linear.History {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.operations
}

// lost says whether what was asked for between two times may be forgotten by a restore.
func (p *player) lost(spans []span) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.restore.at.IsZero() && slices.ContainsFunc(spans, func(s span) bool { return s.from.Before(p.restore.at) && s.to.After(p.restore.began) })
}

// span is the time that a request took.
type span struct{ from, to time.Time }

// side is what an administrator keeps of a difference: each side now and then.
func (p *player) side(d v1.Difference) string {
	h := fnv.New32()
	fmt.Fprintf(h, "%d %s %s", p.plan.Seed, d.ClusterID, d.ServiceName)
	if d.KeepStore == "" || d.KeepCluster != "" && h.Sum32()%2 == 0 {
		return "cluster"
	}
	return "store"
}

// Restores says whether etcd goes back to a backup.
func (p Plan) Restores() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Fault != nil && s.Fault.Kind == faultRestore }) ||
		slices.ContainsFunc(p.Trials, func(t Trial) bool { return restoreTrials()[t.What] != nil || foundTrials()[t.What] != nil })
}

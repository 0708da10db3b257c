package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// errStale says that the federation has moved on since the situation was read.
var errStale = errors.New("the federation has changed since it was looked at")

// decider takes the next step of every federation. Each instance of the control
// plane runs one; the transaction of a step compares the federation's record, so
// that of two deciders one wins and the other finds nothing left to do.
type decider struct {
	store  *store.Store
	state  *state
	limits limits
	now    func() time.Time
	log    *slog.Logger
	steps  func(step string)
	fail   func(point string)
	// leave renders a federation without its members on a cluster.
	leave func(ctx context.Context, s situation, rev int64, cluster string) (decision, error)
	// doubt says that nothing may be decided now.
	doubt func() bool
	queue workqueue.TypedRateLimitingInterface[string]
	seen  clock.Sightings
}

// touched queues the federations that a change of the state concerns.
func (d *decider) touched(federations, clusters []string) {
	for _, uid := range federations {
		d.queue.Add(uid)
	}
	var near []string
	d.state.read(func(v *View) {
		for _, cluster := range clusters {
			for uid := range v.onCluster[cluster] {
				near = append(near, uid)
			}
		}
	})
	for _, uid := range near {
		d.queue.Add(uid)
	}
}

// work takes federations from the queue until it is shut down.
func (d *decider) work(ctx context.Context) {
	for {
		uid, shutdown := d.queue.Get()
		if shutdown {
			return
		}
		again, err := d.step(ctx, uid)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errStale):
			d.queue.AddRateLimited(uid)
		case err != nil:
			d.log.Warn("a step of a federation was not taken; it is tried again", "federation", uid, "error", err)
			d.queue.AddRateLimited(uid)
		default:
			d.queue.Forget(uid)
			if !again.IsZero() {
				d.queue.AddAfter(uid, max(again.Sub(d.now()), 10*time.Millisecond))
			}
		}
		d.queue.Done(uid)
	}
}

// step takes the next step of one federation and says when to look again.
func (d *decider) step(ctx context.Context, uid string) (time.Time, error) {
	s, rev, ok := d.situation(uid)
	if !ok {
		return time.Time{}, nil
	}
	if d.doubt() {
		return time.Time{}, errStale
	}
	next := decide(s, d.limits)
	if next.name == "" {
		return next.again, nil
	}
	if next.leave != "" {
		var err error
		if next, err = d.leave(ctx, s, rev, next.leave); err != nil {
			return time.Time{}, err
		}
	}
	d.fail("before_" + next.name)
	key := record.FederationKey(uid)
	keys := []string{key}
	if next.fence != 0 {
		keys = append(keys, record.FenceKey)
	}
	guess := d.state.mirror.Snapshot().Guess(keys...)
	if next.request != "" {
		// Requests are not mirrored.
		keys, guess = append(keys, record.RequestKey(next.request)), nil
	}
	res, err := d.store.Update(ctx, store.Update{
		Keys: keys, From: guess,
		Build: func(v store.View, tx *store.Txn) error {
			if kv, ok := v.KV(key); !ok || kv.ModRevision != rev {
				return errStale
			}
			tx.Expect(key)
			if next.fence != 0 {
				if kv, _ := v.KV(record.FenceKey); kv.ModRevision != next.fence {
					return errStale
				}
				tx.Expect(record.FenceKey)
			}
			return next.write(s, v, tx)
		},
	})
	if err != nil {
		return time.Time{}, err
	}
	d.fail("after_" + next.name)
	d.steps(next.name)
	d.log.Info("federation step", "federation", uid, "group_id", s.fed.GroupID, "generation", s.fed.Generation,
		"step", next.name, "revision", res.Revision, "request_id", s.fed.RequestID, "detail", detailOf(next))
	return time.Time{}, d.state.wait(ctx, res.Revision)
}

func detailOf(d decision) string {
	if d.fed == nil {
		return ""
	}
	return d.fed.Detail
}

// situation reads one federation and its replicas at one revision.
func (d *decider) situation(uid string) (situation, int64, bool) {
	var s situation
	var rev int64
	found := false
	d.state.read(func(v *View) {
		f, ok := v.federations[uid]
		if !ok {
			return
		}
		found, rev = true, f.rev
		s = v.situation(f.rec)
	})
	s.now = d.now()
	s.age = d.state.elapsed.age(rev, s.now)
	if found {
		deadlinesOf(&d.seen, &s)
	} else {
		d.seen.Forget(uid)
		d.seen.Forget(uid + "/change")
	}
	return s, rev, found
}

func (v *View) situation(f *record.Federation) situation {
	out := situation{fed: *f, removing: map[string]*record.Removal{}, epoch: v.epoch()}
	for _, m := range membersOf(f) {
		if reg, ok := v.clusters[m.ClusterID]; ok && reg.rec.Removal != nil {
			out.removing[m.ClusterID] = reg.rec.Removal
		}
	}
	for i, m := range f.Members {
		if m.Replica() {
			out.replicas = append(out.replicas, v.replica(m, i))
		}
	}
	if f.Change != nil {
		for _, m := range f.Change.Members {
			if m.Replica() && memberOf(f.Members, m.UID) < 0 {
				out.adding = append(out.adding, v.replica(m, -1))
			}
		}
	}
	for _, m := range f.Leaving {
		out.leaving = append(out.leaving, v.replica(m, -1))
	}
	return out
}

func (v *View) replica(m record.Member, index int) replicaState {
	r := replicaState{at: m, member: index, alive: v.alive(m.ClusterID), trouble: v.trouble(m.ClusterID), clusterUID: v.clusterUID(m.ClusterID), compared: v.compared(m.ClusterID)}
	if c, ok := v.clusters[m.ClusterID]; ok && c.rec.LastSeen != nil {
		t := c.rec.LastSeen.Time
		r.lastSeen = &t
	}
	if n := v.nodes[m.ClusterID]; n != nil && n.desiredSelf.rec != nil {
		r.stopped = n.desiredSelf.rec.State == record.ClusterPaused || n.desiredSelf.rec.SameOscarAs != ""
	}
	if d := v.desired(m.ClusterID, m.ServiceName); d.rec != nil && d.rec.UID == m.UID {
		r.desired, r.desiredRev = d.rec, d.rev
	}
	if o := v.observed(m.ClusterID, m.ServiceName); o.rec != nil && o.rec.UID == m.UID {
		r.observed = o.rec
	}
	if r.desired != nil && r.desired.Tombstone() && v.abandoned(m.ClusterID) {
		r.desired, r.observed, r.abandoned = nil, nil, true
	}
	return r
}

// clusterUID is the registration that a cluster's records belong to; empty when there is
// none.
func (v *View) clusterUID(cluster string) string {
	if n := v.nodes[cluster]; n != nil && n.desiredSelf.rec != nil {
		return n.desiredSelf.rec.UID
	}
	return ""
}

// compared says whether a cluster has compared what stands on it with what is desired in the
// present epoch.
func (v *View) compared(cluster string) bool {
	n := v.nodes[cluster]
	return n != nil && n.self.rec != nil && n.self.rec.Epoch == v.epoch()
}

// memberOf is the index of the member with a uid, or -1.
func memberOf(members []record.Member, uid string) int {
	return slices.IndexFunc(members, func(m record.Member) bool { return m.UID == uid })
}

// proposed says whether a pending change refers to a spec of d's federation.
func (v *View) proposed(d *record.Desired, spec string) bool {
	f, ok := v.federations[d.Federation]
	return ok && f.rec.Change != nil && f.rec.Change.Specs[d.UID] == spec
}

// write puts a decision into the transaction.
func (n decision) write(s situation, v store.View, tx *store.Txn) error {
	if err := s.understood(); err != nil {
		return err
	}
	old := s.fed
	key := record.FederationKey(old.UID)
	switch {
	case n.removeFed:
		tx.Delete(key)
		for g := max(1, old.Generation-keepHistory); g <= old.Generation; g++ {
			tx.Delete(record.HistoryKey(old.UID, g))
		}
		tx.Delete(record.SecretsKey(old.UID, old.Generation))
		// The order to the holder of the refresh token outlives it, until it is carried out.
		dropTokens(&old, tx)
	case n.fed != nil:
		tx.Put(key, n.fed)
		tx.Touch(key)
		if n.fed.Phase != record.PhasePreparing && n.fed.Phase != record.PhaseApplying && n.fed.Phase != record.PhaseReady {
			tx.Delete(record.SecretsKey(old.UID, old.Generation))
			dropTokens(&old, tx)
		}
	}
	for _, key := range n.drop {
		tx.Delete(key)
	}
	for _, a := range n.add {
		tx.Put(a.key, a.rec)
	}
	if n.dropName {
		tx.Delete(record.NameKey(old.Owner, old.GroupID))
	}
	for _, p := range n.put {
		tx.Put(record.DesiredServiceKey(p.cluster, p.service), p.rec)
		if p.dropSpec != "" {
			tx.Delete(record.SpecKey(p.cluster, p.dropSpec))
		}
	}
	for _, r := range n.remove {
		tx.Delete(record.DesiredServiceKey(r.cluster, r.service))
		tx.Delete(record.ObservedServiceKey(r.cluster, r.service))
		if r.spec != "" {
			tx.Delete(record.SpecKey(r.cluster, r.spec))
		}
		if r.deleted != nil {
			tx.Put(record.DeletedKey(r.deleted.UID), r.deleted)
		}
	}
	if e := entryOfStep(old, n); e != nil {
		note(tx, s.now, *e)
	}
	if n.request != "" {
		return writeAnswer(n.request, old.UID, answerOf(n), v, tx)
	}
	return nil
}

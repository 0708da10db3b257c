package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// DeleteService turns a federation into tombstones in one transaction; a creation
// in flight is made to roll back. Buckets and objects stay unless opts.Data orders
// otherwise. It waits, up to opts.Wait, until every reachable cluster has
// acknowledged, and says how many have not.
func (c *ControlPlane) DeleteService(ctx context.Context, caller identity.Caller, service string, opts DeleteOptions) (*DeleteResult, error) {
	began := time.Now()
	opts.RequestID = requestID(opts.RequestID)
	q := claimOf(caller, opts.Repeat, opts.RequestID)
	q.takesAway = true
	tries := newRetries()
	for {
		if err := c.fresh(ctx); err != nil {
			return nil, err
		}
		r, err := c.repeated(ctx, q)
		if err != nil {
			return nil, crossing(err)
		}
		if r != nil {
			res := c.awaitGone(ctx, r.UID, opts.Wait-time.Since(began), going(r))
			res.Replayed = r.RequestID != opts.RequestID
			return res, nil
		}
		p, err := c.deletable(caller, service, opts)
		if err != nil {
			return nil, err
		}
		if !p.at().Coordinator {
			return c.removeMember(ctx, caller, p, opts)
		}
		c.fail("before_delete")
		err = c.writeDelete(ctx, caller, p.uid, opts, q)
		if errors.Is(err, errAccepted) || errors.Is(err, errStale) {
			if err := tries.next(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, crossing(err)
		}
		c.fail("after_delete")
		res := c.awaitGone(ctx, p.uid, opts.Wait-time.Since(began), everybody)
		if err := c.giveUp(ctx, caller, p.uid, opts); err != nil {
			return nil, crossing(err)
		}
		res.Replicas = c.fatesOf(p.rec, slices.Concat(p.rec.Members, p.rec.Leaving))
		return res, nil
	}
}

// deletable finds what a deletion names: a replica that the caller may delete, or,
// for further orders, one that is being deleted already.
func (c *ControlPlane) deletable(caller identity.Caller, service string, opts DeleteOptions) (place, error) {
	p, err := c.find(caller, service, opts.ClusterID)
	if err != nil && (opts.Jobs != "" || opts.Data != "") {
		p, err = c.leaving(caller, service, opts.ClusterID, err)
	}
	switch {
	case err != nil:
		return p, err
	case p.rec.Phase.Result():
		return p, notFound(fmt.Sprintf("there is no service %q", service))
	case !caller.MayChange(p.rec.Owner):
		return p, &Error{Code: CodeForbidden, Message: fmt.Sprintf("service %q can be deleted by its owner only", service)}
	case opts.IfMatch != 0 && p.rev != opts.IfMatch:
		return p, conflictOf(p.rec)
	}
	return p, nil
}

// removeMember is the deletion of a replica that is not the coordinator: the others stay.
func (c *ControlPlane) removeMember(ctx context.Context, caller identity.Caller, p place, opts DeleteOptions) (*DeleteResult, error) {
	m, at := p.at(), p.rec.Coordinator()
	res, err := c.ChangeReplicas(ctx, caller, at.ServiceName, ReplicasRequest{
		ClusterID: at.ClusterID, RequestID: opts.RequestID, IfMatch: opts.IfMatch, Data: opts.Data, Jobs: opts.Jobs, Repeat: opts.Repeat,
		Remove: []oscar.Member{{Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName}},
	})
	if err != nil {
		return nil, err
	}
	gone := c.awaitGone(ctx, p.uid, opts.Wait, leavers)
	gone.Replayed = res.Replayed
	gone.Replicas = c.fatesOf(p.rec, []record.Member{m})
	return gone, nil
}

// Whose tombstones a deletion waits for.
func everybody(s situation) []replicaState { return slices.Concat(s.replicas, s.leaving) }
func leavers(s situation) []replicaState   { return s.leaving }

// going says whose tombstones the deletion that a request asked for is about.
func going(r *accepted) func(situation) []replicaState {
	if r.Answer != nil && r.Answer.Phase == record.PhaseReady {
		return leavers // it removed a member
	}
	return everybody
}

func (c *ControlPlane) writeDelete(ctx context.Context, caller identity.Caller, uid string, opts DeleteOptions, q claim) error {
	s, rev, ok := c.decider.situation(uid)
	if !ok {
		return errStale
	}
	if err := s.understood(); err != nil {
		return err
	}
	var d decision
	switch s.fed.Phase {
	case record.PhasePreparing:
		d = abort(s, func(replicaState) *record.Failure { return nil })
	case record.PhaseApplying:
		d = rollBack(s, func(replicaState) *record.Failure { return nil })
	case record.PhaseReady:
		d = deletion(s, opts)
	case record.PhaseDeleting:
		d = hurry(s, opts)
		if len(d.put) == 0 && q.hash == "" {
			return nil
		}
	case record.PhaseRollingBack:
		d = rolledBack(s)
		d.put = hurry(s, opts).put
	case record.PhaseAborted, record.PhaseRolledBack:
		return nil
	default:
		return newerVersion(fmt.Sprintf("federation %q", s.fed.GroupID), fmt.Sprintf("phase %q", s.fed.Phase))
	}
	if s.fed.Phase == record.PhasePreparing || s.fed.Phase == record.PhaseApplying {
		d.fed.Code, d.fed.Detail = string(CodeConflict), "the creation was ended by a deletion"
	}
	key := record.FederationKey(uid)
	keys := append(q.keys(), key)
	if d.request != "" {
		keys = append(keys, record.RequestKey(d.request))
	}
	d.fed.RequestID, d.fed.By = opts.RequestID, caller.Subject
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, RequestID: opts.RequestID, Marker: key,
		Build: func(v store.View, tx *store.Txn) error {
			if err := c.free(q, v); err != nil {
				return err
			}
			if kv, ok := v.KV(key); !ok || kv.ModRevision != rev || opts.IfMatch != 0 && rev != opts.IfMatch {
				return errStale
			}
			tx.Expect(key)
			q.write(tx, uid, record.At(s.now), answerOf(d))
			return d.write(s, v, tx)
		},
	})
	if err != nil {
		return err
	}
	return c.shows(ctx, res.Revision)
}

// giveUp ends a rollback that a deletion has begun or found, and that still waits for a
// cluster: whoever has deleted a creation has its name back.
func (c *ControlPlane) giveUp(ctx context.Context, caller identity.Caller, uid string, opts DeleteOptions) error {
	for {
		s, _, ok := c.decider.situation(uid)
		if !ok || s.fed.Phase != record.PhaseRollingBack {
			return nil
		}
		opts.IfMatch = 0 // what it was held against is done
		if err := c.writeDelete(ctx, caller, uid, opts, claim{}); !errors.Is(err, errStale) {
			return err
		}
		if err := c.fresh(ctx); err != nil {
			return err
		}
	}
}

// deletion turns every replica into a tombstone and frees the name.
func deletion(s situation, opts DeleteOptions) decision {
	next := s.fed
	next.Phase, next.Deadline, next.ChangedAt = record.PhaseDeleting, nil, record.At(s.now)
	next.Members, next.Change = slices.Clone(s.fed.Members), nil
	d := decision{name: "delete", fed: &next, dropName: true}
	if s.fed.Change != nil {
		d = dropChange(s, d)
		d.request = s.fed.Change.Request
	}
	for _, r := range s.replicas {
		if r.desired == nil {
			continue
		}
		t := s.farewell(r, record.CauseDeleted, opts.RequestID)
		t.Data, t.Jobs = opts.Data, opts.Jobs
		if r.desired.Intent == record.IntentPrepare {
			// Never applied: nothing can be there.
			d.remove = append(d.remove, r.removal(s))
			continue
		}
		d.put = append(d.put, r.place(t))
	}
	return d
}

// leaving finds what is being deleted, for an order that hurries it: a federation,
// or a member that was removed; otherwise the answer stays what it was.
func (c *ControlPlane) leaving(caller identity.Caller, service, clusterID string, otherwise error) (place, error) {
	out, err := place{}, otherwise
	c.state.read(func(v *View) {
		for uid := range v.named[service] {
			rev, f := v.federations[uid].rev, v.federations[uid].rec
			if !caller.MayChange(f.Owner) {
				continue
			}
			gone := f.Leaving
			if m := f.Coordinator(); f.Phase == record.PhaseDeleting && m != nil {
				gone = []record.Member{*m}
			}
			for _, m := range gone {
				if m.ServiceName == service && (clusterID == "" || m.ClusterID == clusterID) {
					out, err = place{uid: uid, rec: f, rev: rev, gone: &m}, nil
				}
			}
		}
	})
	return out, err
}

// hurry gives further orders for a deletion under way, as to end the jobs that hold it.
func hurry(s situation, opts DeleteOptions) decision {
	next := s.fed
	next.ChangedAt = record.At(s.now)
	d := decision{name: "hurry", fed: &next}
	for _, r := range slices.Concat(s.replicas, s.leaving) {
		if r.desired == nil || r.acknowledged() {
			continue
		}
		t := *r.desired
		t.Data, t.Jobs = cmp.Or(opts.Data, t.Data), cmp.Or(opts.Jobs, t.Jobs)
		if t.Data == r.desired.Data && t.Jobs == r.desired.Jobs {
			continue
		}
		t.RequestID = opts.RequestID
		d.put = append(d.put, r.place(&t))
	}
	return d
}

// awaitGone waits until no reachable cluster holds a tombstone of those that are
// looked at.
func (c *ControlPlane) awaitGone(ctx context.Context, uid string, wait time.Duration, of func(situation) []replicaState) *DeleteResult {
	res := &DeleteResult{}
	// The order is committed: that the caller has gone is no failure of it.
	_ = c.state.follow(ctx, uid, wait, func(over bool) (bool, error) {
		pending, reachable := 0, 0
		c.state.read(func(v *View) {
			f, ok := v.federations[uid]
			if !ok {
				return
			}
			for _, r := range of(v.situation(f.rec)) {
				if r.desired == nil {
					continue
				}
				if !r.acknowledged() {
					pending++
				}
				if !r.settled() || r.acknowledged() {
					reachable++
				}
			}
		})
		res.Pending = pending
		return over || reachable == 0, nil
	})
	return res
}

package federations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// DeleteService makes tombstones of a federation in one transaction; it rolls back a creation
// under way. Buckets and objects stay unless opts.Data orders otherwise. It waits, up to
// opts.Wait, until every reachable cluster has acknowledged, and returns how many have not.
func (c *Controller) DeleteService(ctx context.Context, caller identity.Caller, service string, opts DeleteOptions) (*DeleteResult, error) {
	began := time.Now()
	opts.RequestID = request.ID(opts.RequestID)
	q := request.ClaimOf(caller, opts.Repeat, opts.RequestID)
	q.TakesAway = true
	tries := gate.NewRetries()
	for {
		if err := c.gate.Fresh(ctx); err != nil {
			return nil, err
		}
		r, err := c.requests.Repeated(ctx, q)
		if err != nil {
			return nil, fault.Crossing(err)
		}
		if r != nil {
			res := c.awaitGone(ctx, r.UID, opts.Wait-time.Since(began), replicasToGo(r))
			res.Replayed = r.RequestID != opts.RequestID
			return res, nil
		}
		p, err := c.deletable(caller, service, opts)
		if err != nil {
			return nil, err
		}
		switch {
		case p.Rec.Phase.Result():
			err := c.forget(ctx, p.UID, opts, q)
			if errors.Is(err, request.ErrAccepted) || errors.Is(err, gate.ErrStale) {
				if err := tries.Next(ctx, err); err != nil {
					return nil, err
				}
				continue
			}
			if err != nil {
				return nil, fault.Crossing(err)
			}
			c.forgetFormer(ctx, p.Rec, opts)
			return &DeleteResult{}, nil
		case !p.At().Coordinator:
			return c.removeMember(ctx, caller, p, opts)
		}
		c.gate.Fail("before_delete")
		err = c.writeDelete(ctx, caller, p.UID, opts, q)
		if errors.Is(err, request.ErrAccepted) || errors.Is(err, gate.ErrStale) {
			if err := tries.Next(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fault.Crossing(err)
		}
		c.gate.Fail("after_delete")
		res := c.awaitGone(ctx, p.UID, opts.Wait-time.Since(began), allReplicas)
		if err := c.giveUp(ctx, caller, p.UID, opts); err != nil {
			return nil, fault.Crossing(err)
		}
		res.Replicas = c.fatesOf(p.Rec, slices.Concat(p.Rec.Members, p.Rec.Leaving))
		c.forgetFormer(ctx, p.Rec, opts)
		return res, nil
	}
}

// deletable finds the replica that a deletion names: one that the caller may delete or, for
// further orders, one that is being deleted already.
func (c *Controller) deletable(caller identity.Caller, service string, opts DeleteOptions) (view.MemberRef, error) {
	p, err := c.state.FindWithResult(caller, service, opts.ClusterID)
	e, _ := errors.AsType[*fault.Error](err)
	gone := e != nil && e.Code == fault.CodeNotFound || err == nil && (p.Rec.Phase.Result() || !caller.MayChange(p.Rec.Owner))
	if gone && (opts.Jobs != "" || opts.Data != "") {
		p, err = c.leaving(caller, service, opts.ClusterID, p, err)
	}
	switch {
	case err != nil:
		return p, err
	case p.Rec.Phase.Result() && !p.At().Coordinator:
		return p, view.NoService(service, p.Rec.Phase)
	case !caller.MayChange(p.Rec.Owner):
		return p, &fault.Error{Code: fault.CodeForbidden, Message: fmt.Sprintf("service %q can be deleted by its owner only", service)}
	case opts.IfMatch != 0 && p.Rev != opts.IfMatch:
		return p, conflictOf(p.Rec)
	}
	return p, nil
}

// forget removes the kept result of a failed creation. Nothing of it may be left on a cluster.
func (c *Controller) forget(ctx context.Context, uid string, opts DeleteOptions, q request.Claim) error {
	all, own := c.together(uid)
	if own < 0 {
		return gate.ErrStale
	}
	s, rev := all[own].sit, all[own].rev
	if err := s.Understood(); err != nil {
		return err
	}
	for _, r := range s.Replicas {
		switch {
		case r.Desired == nil:
		case r.Acknowledged():
			return gate.ErrStale // the next step takes it out of the store
		default:
			return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf(
				"the creation of %q is taken back, and cluster %q has not done so yet; it does when it is back", s.Fed.GroupID, r.At.ClusterID)}
		}
	}
	all[own].next = decide.Decision{Step: decide.StepForgotten, RemoveFed: true}
	res, err := c.store.Update(ctx, store.Update{
		Keys: append(q.Keys(), all.keys()...),
		Build: func(v store.View, tx *store.Txn) error {
			if err := c.requests.Free(q, v); err != nil {
				return err
			}
			if opts.IfMatch != 0 && rev != opts.IfMatch {
				return gate.ErrStale
			}
			q.Write(tx, uid, record.At(s.Now), &record.Answer{Phase: record.PhaseDeleting})
			return all.put(v, tx)
		},
	})
	if err != nil {
		return err
	}
	return c.gate.Shows(ctx, res.Revision)
}

// forgetFormer removes the results of failed creations of a federation that is deleted, so that
// none of them is listed in its place. Those that it cannot remove are removed with their age.
func (c *Controller) forgetFormer(ctx context.Context, fed *record.Federation, opts DeleteOptions) {
	at := fed.Coordinator()
	if at == nil {
		return
	}
	var former []string
	c.state.Read(func(v *view.View) {
		for uid := range v.Named.Of(at.ServiceName) {
			f := v.Federations.Get(uid)
			if f.Rec.Phase.Result() && f.Rec.Owner == fed.Owner && f.Rec.GroupID == fed.GroupID && uid != fed.UID {
				former = append(former, uid)
			}
		}
	})
	opts.IfMatch = 0
	for _, uid := range former {
		_ = c.forget(ctx, uid, opts, request.Claim{})
	}
}

// removeMember is the deletion of a replica that is not the coordinator: the others stay.
func (c *Controller) removeMember(ctx context.Context, caller identity.Caller, p view.MemberRef, opts DeleteOptions) (*DeleteResult, error) {
	m, at := p.At(), p.Rec.Coordinator()
	res, err := c.ChangeReplicas(ctx, caller, at.ServiceName, ReplicasRequest{
		ClusterID: at.ClusterID, RequestID: opts.RequestID, IfMatch: opts.IfMatch, Data: opts.Data, Jobs: opts.Jobs, Repeat: opts.Repeat,
		Remove: []oscar.Member{{Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName}},
	})
	if err != nil {
		return nil, err
	}
	gone := c.awaitGone(ctx, p.UID, opts.Wait, leavingReplicas)
	gone.Replayed = res.Replayed
	gone.Replicas = c.fatesOf(p.Rec, []record.Member{m})
	return gone, nil
}

// These say which tombstones a deletion waits for.
func allReplicas(s view.Situation) []view.ReplicaState { return slices.Concat(s.Replicas, s.Leaving) }

func leavingReplicas(s view.Situation) []view.ReplicaState { return s.Leaving }

// replicasToGo says which tombstones the deletion of a request is about.
func replicasToGo(r *request.Accepted) func(view.Situation) []view.ReplicaState {
	if r.Answer != nil && r.Answer.Phase == record.PhaseReady {
		return leavingReplicas // it removed a member
	}
	return allReplicas
}

func (c *Controller) writeDelete(ctx context.Context, caller identity.Caller, uid string, opts DeleteOptions, q request.Claim) error {
	all, own := c.together(uid)
	if own < 0 {
		return gate.ErrStale
	}
	s, rev := all[own].sit, all[own].rev
	if err := s.Understood(); err != nil {
		return err
	}
	d, err := deletion(s, opts)
	if err != nil || d.Fed == nil {
		return err
	}
	if s.Fed.Phase == record.PhaseDeleting && len(d.Put) == 0 && q.Hash == "" {
		return nil
	}
	if err := c.stageAccess(ctx, tokens.AccessTokenOf(caller, s.Fed.Owner), &s.Fed, s.Now, tokens.ClustersEnding(d.Put)); err != nil {
		return err
	}
	d.Fed.RequestID, d.Fed.By = opts.RequestID, caller.Subject
	all.decide(func(sits []view.Situation) []decide.Decision { return decide.EndBatch(sits, own, d) })
	key := record.FederationKey(uid)
	res, err := c.store.Update(ctx, store.Update{
		Keys: append(q.Keys(), all.keys()...), RequestID: opts.RequestID, Marker: key,
		Build: func(v store.View, tx *store.Txn) error {
			if err := c.requests.Free(q, v); err != nil {
				return err
			}
			if opts.IfMatch != 0 && rev != opts.IfMatch {
				return gate.ErrStale
			}
			q.Write(tx, uid, record.At(s.Now), request.AnswerOf(d))
			return all.put(v, tx)
		},
	})
	if err != nil {
		return err
	}
	return c.gate.Shows(ctx, res.Revision)
}

// deletion is what an order to delete a federation does to it: it ends a creation, makes
// tombstones, or adds orders to them. Fed is nil when nothing is left to be done.
func deletion(s view.Situation, opts DeleteOptions) (decide.Decision, error) {
	none := func(view.ReplicaState) *record.Failure { return nil }
	ended := func(d decide.Decision) (decide.Decision, error) {
		d.Fed.Code, d.Fed.Detail = string(fault.CodeConflict), "the creation was ended by a deletion"
		return d, nil
	}
	switch s.Fed.Phase {
	case record.PhasePreparing:
		return ended(decide.Abort(s, none))
	case record.PhaseApplying:
		return ended(decide.RollBack(s, none))
	case record.PhaseReady:
		return decide.Deletion(s, opts.orders()), nil
	case record.PhaseDeleting:
		return decide.AmendDeletion(s, opts.orders()), nil
	case record.PhaseRollingBack:
		d := decide.RolledBack(s)
		d.Put = decide.AmendDeletion(s, opts.orders()).Put
		return d, nil
	case record.PhaseAborted, record.PhaseRolledBack:
		return decide.Decision{}, nil
	}
	return decide.Decision{}, fault.NewerVersion(fmt.Sprintf("federation %q", s.Fed.GroupID), fmt.Sprintf("phase %q", s.Fed.Phase))
}

// giveUp ends a rollback that a deletion has begun or found and that still waits for a cluster,
// so that the name is free for the caller again.
func (c *Controller) giveUp(ctx context.Context, caller identity.Caller, uid string, opts DeleteOptions) error {
	for {
		s, _, ok := c.situation(uid)
		if !ok || s.Fed.Phase != record.PhaseRollingBack {
			return nil
		}
		opts.IfMatch = 0 // what it was held against is done
		if err := c.writeDelete(ctx, caller, uid, opts, request.Claim{}); !errors.Is(err, gate.ErrStale) {
			return err
		}
		if err := c.gate.Fresh(ctx); err != nil {
			return err
		}
	}
}

func (o DeleteOptions) orders() decide.DeletionOrders {
	return decide.DeletionOrders{Data: o.Data, Jobs: o.Jobs, RequestID: o.RequestID}
}

// leaving finds a deletion under way whose orders a request amends: of a federation, or of a
// removed member. Without one the answer stays the same, and several are a conflict.
func (c *Controller) leaving(caller identity.Caller, service, clusterID string, out view.MemberRef, err error) (view.MemberRef, error) {
	var found []view.MemberRef
	c.state.Read(func(v *view.View) {
		for uid := range v.Named.Of(service) {
			rev, f := v.Federations.Get(uid).Rev, v.Federations.Get(uid).Rec
			if !caller.MayChange(f.Owner) {
				continue
			}
			gone := f.Leaving
			if m := f.Coordinator(); f.Phase == record.PhaseDeleting && m != nil {
				gone = []record.Member{*m}
			}
			for _, m := range gone {
				if m.ServiceName == service && (clusterID == "" || m.ClusterID == clusterID) {
					found = append(found, view.MemberRef{UID: uid, Rec: f, Rev: rev, Gone: &m})
				}
			}
		}
	})
	switch len(found) {
	case 0:
		return out, err
	case 1:
		return found[0], nil
	}
	return view.MemberRef{}, view.Ambiguous(service, found)
}

// awaitGone waits until no reachable cluster holds one of the tombstones.
func (c *Controller) awaitGone(ctx context.Context, uid string, wait time.Duration, of func(view.Situation) []view.ReplicaState) *DeleteResult {
	res := &DeleteResult{}
	// The order is committed: it does not fail when the caller has gone.
	_ = c.state.Follow(ctx, uid, wait, func(over bool) (bool, error) {
		pending, reachable := 0, 0
		c.state.Read(func(v *view.View) {
			f, ok := v.Federations.Lookup(uid)
			if !ok {
				return
			}
			for _, r := range of(v.Situation(f.Rec)) {
				if r.Desired == nil {
					continue
				}
				if !r.Acknowledged() {
					pending++
				}
				if !r.Settled() || r.Acknowledged() {
					reachable++
				}
			}
		})
		res.Pending = pending
		return over || reachable == 0, nil
	})
	return res
}

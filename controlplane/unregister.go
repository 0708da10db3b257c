package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// removals takes the next step of every cluster that is being removed, and tidies
// up behind those that were.
func (c *ControlPlane) removals(ctx context.Context) {
	for {
		cluster, shutdown := c.departed.Get()
		if shutdown {
			return
		}
		err := c.removalStep(ctx, cluster)
		switch {
		case err == nil:
			c.departed.Forget(cluster)
		case ctx.Err() == nil:
			if !errors.Is(err, errStale) {
				c.cfg.Logger.Warn("a step of a cluster's removal was not taken; it is tried again", "cluster", cluster, "error", err)
			}
			c.departed.AddRateLimited(cluster)
		}
		c.departed.Done(cluster)
	}
}

func (c *ControlPlane) removalStep(ctx context.Context, cluster string) error {
	var next clusterDecision
	var rev int64
	forgotten := false
	c.state.read(func(v *View) {
		sit, at, registered := v.removal(cluster)
		if registered {
			rev, next = at, decideRemoval(sit)
			return
		}
		n := v.nodes[cluster]
		forgotten = n != nil && n.desiredSelf.rec != nil && len(n.desired)+len(n.assignments) == 0
	})
	switch {
	case next.unregister:
		c.fail("before_unregister")
		if err := c.unregister(ctx, cluster, rev); err != nil {
			return err
		}
		c.fail("after_unregister")
	case forgotten:
		return c.forgetCluster(ctx, cluster, true)
	}
	return nil
}

// leaveCluster renders a federation without its members on a cluster. The decision
// that it returns is the whole of the change: it is written at once or not at all.
func (c *ControlPlane) leaveCluster(ctx context.Context, s situation, rev int64, cluster string) (decision, error) {
	id := change{caller: administrator(), removes: true, claim: claim{requestID: s.removing[cluster].RequestID}}
	draft, err := c.draftChange(ctx, id, place{uid: s.fed.UID, rec: &s.fed, rev: rev}, func(old *oscar.Service) (*oscar.Service, error) {
		service := old.Clone()
		fed := federationOf(service)
		fed.Members = slices.DeleteFunc(slices.Clone(fed.Members), func(m oscar.Member) bool { return m.ClusterID == cluster })
		return service, nil
	})
	if err != nil {
		return decision{}, fmt.Errorf("federation %s without its member on cluster %q: %w", s.fed.UID, cluster, err)
	}
	if !draft.differs {
		return decision{}, fmt.Errorf("federation %s has a member on cluster %q that its definition does not name", s.fed.UID, cluster)
	}
	if err := c.stage(ctx, draft.before); err != nil {
		return decision{}, err
	}
	d := applyChange(draft.sit, newProposal(draft.next, draft.specs))
	d.name, d.add, d.fence = "leave", draft.submitted, draft.fence
	return d, nil
}

// unregister takes the registration away, in the state that was decided upon. What
// the cluster still has to do stays below its own prefix, and so does, for its
// syncer, who it was.
func (c *ControlPlane) unregister(ctx context.Context, id string, rev int64) error {
	key, desired := record.ClusterKey(id), record.DesiredClusterKey(id)
	res, err := c.store.Update(ctx, store.Update{
		Keys: []string{key, desired, record.FenceKey},
		Build: func(v store.View, tx *store.Txn) error {
			kv, ok := v.KV(key)
			if !ok || kv.ModRevision != rev {
				return errStale
			}
			tx.Expect(key)
			tx.Delete(key)
			done := record.Audit{By: identity.Admin, Action: record.ActionRemoveCluster, Outcome: record.OutcomeDone, ClusterID: id}
			if reg, err := store.Decode[record.Cluster](kv); err == nil && reg.Removal != nil {
				done.RequestID = reg.Removal.RequestID
			}
			note(tx, c.cfg.Now(), done)
			if err := bumpFence(v, tx, "removed "+id); err != nil {
				return err
			}
			left, _, err := c.store.List(ctx, record.DesiredServicesPrefix(id))
			if err != nil {
				return err
			}
			jobs, err := c.store.ListKeys(ctx, record.AssignmentsPrefix(id))
			if err != nil {
				return err
			}
			order, ok := v.KV(desired)
			if len(left)+len(jobs) == 0 || !ok {
				tx.ExpectEmpty(record.DesiredServicesPrefix(id))
				tx.ExpectEmpty(record.AssignmentsPrefix(id))
				tx.Delete(desired)
				clearTree(tx, id)
				return nil
			}
			d, err := store.Decode[record.DesiredCluster](order)
			if err != nil {
				return err
			}
			reg, err := store.Decode[record.Cluster](kv)
			if err != nil {
				return err
			}
			at := record.At(c.cfg.Now())
			d.State, d.RemovedAt, d.Joined, d.Revoked = record.ClusterRemoved, &at, reg.Joined, reg.Revoked
			tx.Expect(desired)
			tx.Put(desired, d)
			tx.DeletePrefix(record.SpecsPrefix(id))
			tx.DeletePrefix(record.TokensPrefix(id))
			return nil
		},
	})
	if err != nil {
		return err
	}
	c.cfg.Logger.Info("cluster removed", "cluster", id, "revision", res.Revision)
	return c.state.wait(ctx, res.Revision)
}

// forgetCluster takes away what is left of a cluster that is registered no more:
// when nothing is desired of it, or (idle is false) when it has been away too long.
func (c *ControlPlane) forgetCluster(ctx context.Context, id string, idle bool) error {
	key, desired := record.ClusterKey(id), record.DesiredClusterKey(id)
	res, err := c.store.Update(ctx, store.Update{
		Keys: []string{key, desired},
		Build: func(v store.View, tx *store.Txn) error {
			_, registered := v.KV(key)
			kv, ok := v.KV(desired)
			if registered || !ok {
				return nil
			}
			d, err := store.Decode[record.DesiredCluster](kv)
			if err != nil || d.State != record.ClusterRemoved {
				return err
			}
			tx.Expect(key)
			tx.Expect(desired)
			if idle {
				tx.ExpectEmpty(record.DesiredServicesPrefix(id))
				tx.ExpectEmpty(record.AssignmentsPrefix(id))
			}
			tx.Delete(desired)
			clearTree(tx, id)
			return nil
		},
	})
	if _, conflict := errors.AsType[*store.ConflictError](err); conflict {
		return errStale
	}
	if err != nil {
		return err
	}
	return c.state.wait(ctx, res.Revision)
}

// sweepRemoved forgets clusters that were removed long ago and did not come back
// for what they had to do.
func (c *ControlPlane) sweepRemoved(ctx context.Context) error {
	var old []string
	c.state.read(func(v *View) {
		for id, n := range v.nodes {
			d := n.desiredSelf.rec
			if d != nil && d.RemovedAt != nil && c.age(n.desiredSelf.rev) > c.cfg.KeepDeleted {
				old = append(old, id)
			}
		}
	})
	for _, id := range old {
		if err := c.forgetCluster(ctx, id, false); err != nil {
			return err
		}
	}
	return nil
}

// clearTree takes everything below c/<cluster>/ that is not the syncer's own
// session, and not desired/cluster, which the caller writes or deletes.
func clearTree(tx *store.Txn, id string) {
	tx.DeletePrefix(record.DesiredServicesPrefix(id))
	tx.DeletePrefix(record.SpecsPrefix(id))
	tx.DeletePrefix(record.TokensPrefix(id))
	tx.DeletePrefix(record.AssignmentsPrefix(id))
	tx.DeletePrefix(record.AssignedEventsPrefix(id))
	tx.DeletePrefix(record.OfferAnswersPrefix(id))
	tx.DeletePrefix(record.ObservedPrefix(id))
}

package clusters

import (
	"context"
	"errors"

	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// removalStep takes the next step of a cluster that is being removed, and deletes what is left of
// one that was.
func (c *Controller) removalStep(ctx context.Context, cluster string) error {
	var next decide.ClusterDecision
	var rev int64
	forgotten := false
	c.state.Read(func(v *view.View) {
		sit, at, registered := decide.RemovalSituation(v, cluster)
		if registered {
			rev, next = at, decide.Removal(sit)
			return
		}
		n := v.Nodes.Get(cluster)
		forgotten = n.DesiredSelf.Rec != nil && n.Desired.Len()+n.Assignments.Len() == 0
	})
	switch {
	case next.Unregister:
		c.gate.Fail("before_unregister")
		if err := c.unregister(ctx, cluster, rev); err != nil {
			return err
		}
		c.gate.Fail("after_unregister")
	case forgotten:
		return c.forgetCluster(ctx, cluster, true)
	}
	return nil
}

// unregister takes the registration away, in the state that was decided upon. What
// the cluster still has to do stays below its own prefix, with the identity that its
// syncer had.
func (c *Controller) unregister(ctx context.Context, id string, rev int64) error {
	key, desired := record.ClusterKey(id), record.DesiredClusterKey(id)
	res, err := c.store.Update(ctx, store.Update{
		Keys: []string{key, desired, record.FenceKey},
		Build: func(v store.View, tx *store.Txn) error {
			kv, ok := v.KV(key)
			if !ok || kv.ModRevision != rev {
				return gate.ErrStale
			}
			tx.Expect(key)
			tx.Delete(key)
			done := record.Audit{By: identity.Admin, Action: record.ActionRemoveCluster, Outcome: record.OutcomeDone, ClusterID: id}
			if reg, err := store.Decode[record.Cluster](kv); err == nil && reg.Removal != nil {
				done.RequestID = reg.Removal.RequestID
			}
			request.Note(tx, c.cfg.Now(), done)
			if err := gate.BumpFence(v, tx, "removed "+id); err != nil {
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
			tx.DeletePrefix(record.AsksPrefix(id))
			return nil
		},
	})
	if err != nil {
		return err
	}
	c.cfg.Logger.Info("cluster removed", "cluster", id, "revision", res.Revision)
	return c.state.Wait(ctx, res.Revision)
}

// forgetCluster takes away what is left of a cluster that is registered no more:
// when nothing is desired of it, or (idle is false) when it has been away too long.
func (c *Controller) forgetCluster(ctx context.Context, id string, idle bool) error {
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
		return gate.ErrStale
	}
	if err != nil {
		return err
	}
	return c.state.Wait(ctx, res.Revision)
}

// SweepRemoved forgets clusters that were removed long ago and did not come back
// for what they had to do.
func (c *Controller) SweepRemoved(ctx context.Context) error {
	var old []string
	c.state.Read(func(v *view.View) {
		for id, n := range v.Nodes.All() {
			d := n.DesiredSelf.Rec
			if d != nil && d.RemovedAt != nil && c.gate.Age(n.DesiredSelf.Rev) > c.cfg.KeepDeleted {
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
	tx.DeletePrefix(record.AsksPrefix(id))
	tx.DeletePrefix(record.ObservedPrefix(id))
}

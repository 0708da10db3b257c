package clusters

import (
	"context"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// RemoveOptions say how a cluster is removed.
type RemoveOptions struct {
	// IfMatch is the revision that the registration must have for a new order; 0
	// demands none.
	IfMatch int64
	// Orphan keeps the local services running, without our marks.
	Orphan bool
	// Force does not wait for the cluster, and deletes the federations whose
	// coordinator is there.
	Force     bool
	RequestID string
	// Wait is how long to wait until the registration is gone.
	Wait time.Duration
}

// RemoveResult is what has become of a removal.
type RemoveResult struct {
	// Cluster is nil once the registration is gone.
	Cluster *Cluster
	// Pending counts the orders that wait for the cluster.
	Pending int
}

// Remove orders the removal of a cluster and waits, up to opts.Wait, for its
// end. The order is kept in the registration: from then on nothing new is placed on
// the cluster, and workers of any instance take every federation off it, one
// transaction for each, and then the registration away. The same order again waits
// for the same end; force may be added to one that is under way.
func (c *Controller) Remove(ctx context.Context, caller identity.Caller, id string, opts RemoveOptions) (*RemoveResult, error) {
	began := time.Now()
	if !caller.Administrator {
		return nil, fault.AdminOnly("change clusters")
	}
	if opts.RequestID == "" {
		opts.RequestID = record.NewUID()
	}
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	c.gate.Fail("before_remove")
	uid, err := c.orderRemoval(ctx, caller, id, opts)
	if err != nil {
		return nil, fault.Crossing(err)
	}
	c.gate.Fail("after_remove")
	return c.awaitRemoved(ctx, id, uid, opts.Wait-time.Since(began))
}

// orderRemoval writes the order, unless it stands already, and answers the uid of
// the cluster that it is for.
func (c *Controller) orderRemoval(ctx context.Context, caller identity.Caller, id string, opts RemoveOptions) (string, error) {
	key, desired := record.ClusterKey(id), record.DesiredClusterKey(id)
	uid := ""
	res, err := c.store.Update(ctx, store.Update{
		Keys: []string{key, desired, record.FenceKey},
		Build: func(v store.View, tx *store.Txn) error {
			reg, d, err := changeable(v, id)
			if err != nil {
				return err
			}
			uid = reg.UID
			if changed, err := c.ordered(reg, opts); err != nil || !changed {
				return err
			}
			kv, _ := v.KV(key)
			if err := asGiven(kv, opts.IfMatch); err != nil {
				return err
			}
			reg.State, d.State = record.ClusterRemoving, record.ClusterRemoving
			tx.Expect(key)
			tx.Expect(desired)
			tx.Put(key, reg)
			tx.Put(desired, d)
			request.Note(tx, c.cfg.Now(), record.Audit{
				By: caller.Subject, Action: record.ActionRemoveCluster, Outcome: record.OutcomeAccepted, ClusterID: id, RequestID: reg.Removal.RequestID,
			})
			return gate.BumpFence(v, tx, "removing "+id)
		},
	})
	if err != nil {
		return "", err
	}
	return uid, c.gate.Shows(ctx, res.Revision)
}

// ordered enters the order into the registration; false when it stands there.
func (c *Controller) ordered(reg *record.Cluster, opts RemoveOptions) (bool, error) {
	if reg.Removal == nil {
		var refused string
		c.state.Read(func(v *view.View) {
			if sit, _, ok := decide.RemovalSituation(v, reg.ClusterID); ok {
				refused = decide.RefuseRemoval(sit, opts.Force)
			}
		})
		if refused != "" {
			return false, &fault.Error{Code: fault.CodeFailedPrecondition, Message: refused}
		}
		reg.Removal = &record.Removal{
			RequestID: opts.RequestID, Orphan: opts.Orphan, Force: opts.Force, StartedAt: record.At(c.cfg.Now()),
		}
		return true, nil
	}
	if reg.Removal.Orphan != opts.Orphan {
		word := "without"
		if reg.Removal.Orphan {
			word = "with"
		}
		return false, &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("cluster %q is being removed already, %s orphan; repeat it that way", reg.ClusterID, word)}
	}
	if !opts.Force || reg.Removal.Force {
		return false, nil
	}
	removal := *reg.Removal
	removal.Force = true
	reg.Removal = &removal
	return true, nil
}

// awaitRemoved waits until the registration is gone, until the removal needs a
// person, or until wait has passed.
func (c *Controller) awaitRemoved(ctx context.Context, id, uid string, wait time.Duration) (*RemoveResult, error) {
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	over := false
	for {
		changed := c.state.Watch()
		var res RemoveResult
		done := false
		c.state.Read(func(v *view.View) {
			if v.ClusterUID(id) == uid {
				res.Pending = v.Nodes.Get(id).Desired.Len()
			}
			reg, ok := v.Clusters.Lookup(id)
			if !ok || reg.Rec.UID != uid {
				done = true
				return
			}
			shown := showCluster(v, reg, c.streamOf)
			res.Cluster = &shown
			done = over || shown.Removal != nil && shown.Removal.Blocked
		})
		if done {
			return &res, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

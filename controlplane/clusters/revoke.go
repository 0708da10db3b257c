package clusters

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// revokeExcessive writes that a cluster is revoked. Any instance that sees it deletes the cluster's
// user. A newer registration under the same id is not revoked.
func (c *Controller) revokeExcessive(ctx context.Context, id string) error {
	if err := c.gate.Fresh(ctx); err != nil {
		return err
	}
	// What the meter says is of the registration that is seen here, or of a later one: a readmission, or another
	// registration, has forgiven it before it is seen.
	var seen, seenTold int64
	c.state.Read(func(v *view.View) { seen, seenTold = v.Clusters.Get(id).Rev, v.Nodes.Get(id).DesiredSelf.Rev })
	passed := c.meter.Passed(id)
	if passed == "" {
		return nil
	}
	revocation := &record.Revocation{Message: passed, At: record.At(c.cfg.Now())}
	key, desired := record.ClusterKey(id), record.DesiredClusterKey(id)
	written := false
	res, err := c.store.Update(ctx, store.Update{
		Keys: []string{key, desired, record.FenceKey},
		Build: func(v store.View, tx *store.Txn) error {
			written = false
			reg, told, err := registration(v, id)
			if err != nil || told == nil || told.Revoked != nil || reg != nil && reg.Revoked != nil {
				return err
			}
			if revisionAt(v, key) != seen || revisionAt(v, desired) != seenTold {
				return gate.ErrStale
			}
			written = true
			tx.Expect(key)
			tx.Expect(desired)
			request.Note(tx, c.cfg.Now(), record.Audit{
				Action: record.ActionClusterState, Outcome: record.OutcomeDone, ClusterID: id, Detail: "revoked: " + passed,
			})
			if reg == nil {
				told.Revoked = revocation
				tx.Put(desired, told)
				return nil
			}
			reg.Revoked = revocation
			if reg.Removal == nil {
				revocation.State = reg.State
				reg.State, told.State = record.ClusterRevoked, record.ClusterRevoked
			}
			tx.Put(key, reg)
			tx.Put(desired, told)
			return gate.BumpFence(v, tx, "revoked "+id)
		},
	})
	if err != nil {
		return err
	}
	if written {
		c.revoked.WithLabelValues(id).Inc()
		c.cfg.Logger.Error("a cluster is revoked: it has passed the limits of what it may write", "cluster", id, "reason", passed,
			"advice", "find out why; then oscarfed cluster readmit "+id)
	}
	return c.state.Wait(ctx, res.Revision)
}

// Readmit ends a revocation. The same transaction deletes the reports of the cluster, so that it is
// within its limits again; it reports anew when it connects. One that was paused or cordoned is so again.
func (c *Controller) Readmit(ctx context.Context, caller identity.Caller, id string) (*Cluster, error) {
	if !caller.Administrator {
		return nil, fault.AdminOnly("change clusters")
	}
	if err := c.keepTold(ctx, id); err != nil {
		return nil, fault.Crossing(err)
	}
	key, desired := record.ClusterKey(id), record.DesiredClusterKey(id)
	out, err := c.writeCluster(ctx, []string{key, desired, record.FenceKey}, id, func(v store.View, tx *store.Txn) error {
		reg, told, err := changeable(v, id)
		if err != nil {
			return err
		}
		switch {
		case reg.Removal != nil:
			return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("cluster %q is being removed; that cannot be taken back", id)}
		case reg.Revoked == nil:
			return nil
		}
		// Neither what is reported there nor what is ordered may have changed since it was looked at, by the state of
		// this revision or a later one.
		if err := c.state.Wait(ctx, v.Revision); err != nil {
			return err
		}
		var seen int64
		forgets := false
		c.state.Read(func(now *view.View) {
			seen, forgets = now.Revision, forgetsPosted(now, id) || len(forgottenReports(now, id)) > 0
		})
		if forgets {
			return &fault.Error{Code: fault.CodeUnavailable, RetryAfter: time.Second, Message: "what was reported there is being noted; try again in a moment"}
		}
		tx.ExpectUnwritten(record.ObservedPrefix(id), seen)
		tx.ExpectUnwritten(record.DesiredPrefix(id), seen)
		state := cmp.Or(reg.Revoked.State, record.ClusterActive)
		at := record.At(c.cfg.Now())
		reg.Revoked, reg.ReadmittedAt, reg.State, told.State = nil, &at, state, state
		tx.Expect(key)
		tx.Expect(desired)
		tx.Put(key, reg)
		tx.Put(desired, told)
		tx.DeletePrefix(record.ObservedPrefix(id))
		request.Note(tx, c.cfg.Now(), record.Audit{
			By: caller.Subject, Action: record.ActionClusterState, Outcome: record.OutcomeDone, ClusterID: id, Detail: "readmitted",
		})
		return gate.BumpFence(v, tx, "readmitted "+id)
	})
	if err != nil || c.cfg.Access == nil {
		return out, err
	}
	if err := c.cfg.Access.Admit(ctx, id, out.UID); err != nil {
		return nil, &fault.Error{Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second, Cause: err,
			Message: "the cluster is readmitted, but etcd's user was not made yet; send the same request again"}
	}
	return out, nil
}

// forgetsPosted says whether it is told by its report alone that a job may run on a cluster. A readmission
// takes the report away.
func forgetsPosted(v *view.View, cluster string) bool {
	for id := range v.Jobs.ByCluster.Of(cluster).IDs() {
		j := v.Jobs.ByID.Get(id).Rec
		at, n := view.AttemptID{Job: id, Attempt: j.Attempt}, v.Nodes.Get(cluster)
		r, a := n.Reports.Get(at).Rec, n.Assignments.Get(at).Rec
		if r != nil && r.State.Posted() && a != nil && !a.Posted {
			return true
		}
	}
	return false
}

package clusters

import (
	"context"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// SetState cordons a cluster (nothing new is placed on it), pauses it (its
// syncer changes nothing) or makes it active again. Only the administrator may.
func (c *Controller) SetState(ctx context.Context, caller identity.Caller, id, word string) (*Cluster, error) {
	state := record.ClusterState(word)
	if !caller.Administrator {
		return nil, fault.AdminOnly("change clusters")
	}
	if !slices.Contains([]record.ClusterState{record.ClusterActive, record.ClusterPaused, record.ClusterCordoned}, state) {
		return nil, &fault.Error{Code: fault.CodeInvalid, Message: fmt.Sprintf("state %q is unknown; use active, cordoned or paused", word), Violations: []oscar.Violation{{
			Path: "state", Rule: oscar.RuleOneOf, Value: word, Message: "use active, cordoned or paused"}}}
	}
	key, desired := record.ClusterKey(id), record.DesiredClusterKey(id)
	return c.writeCluster(ctx, []string{key, desired, record.FenceKey}, id, func(v store.View, tx *store.Txn) error {
		reg, d, err := changeable(v, id)
		if err != nil {
			return err
		}
		if reg.Removal != nil {
			return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("cluster %q is being removed; that cannot be taken back", id)}
		}
		if reg.Revoked != nil {
			return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("cluster %q is revoked (%s); readmit it first: oscarfed cluster readmit %s", id, reg.Revoked.Message, id)}
		}
		if reg.State == state && d.State == state {
			return nil
		}
		reg.State, d.State = state, state
		tx.Expect(key)
		tx.Expect(desired)
		tx.Put(key, reg)
		tx.Put(desired, d)
		request.Note(tx, c.cfg.Now(), record.Audit{By: caller.Subject, Action: record.ActionClusterState, Outcome: record.OutcomeDone, ClusterID: id, Detail: word})
		return gate.BumpFence(v, tx, string(state)+" "+id)
	})
}

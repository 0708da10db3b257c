package federations

import (
	"context"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// SweepStaged removes staged records that two sweeps have found unreferenced. The instance that
// staged them may have slept, and may commit at this moment. Its transaction compares the fence
// as it was before the staging. So once the fence is bumped, either that transaction has
// committed, which is seen here, or it never will, and the instance stages again.
func (c *Controller) SweepStaged(ctx context.Context, items []store.KV) error {
	if len(items) == 0 {
		return nil
	}
	res, err := c.store.Update(ctx, store.Update{Keys: []string{record.FenceKey}, Build: func(v store.View, tx *store.Txn) error {
		return gate.BumpFence(v, tx, "swept")
	}})
	if err != nil {
		return err
	}
	if err := c.gate.Shows(ctx, res.Revision); err != nil {
		return err
	}
	for _, kv := range items {
		if c.Referenced(kv.Key) {
			continue
		}
		if err := c.gate.DeleteAsRead(ctx, kv); err != nil {
			return err
		}
	}
	return nil
}

// Referenced says whether a living record refers to a spec, a history, secrets or tokens.
func (c *Controller) Referenced(key string) bool {
	ref := record.ParseKey(key)
	found := false
	c.state.Read(func(v *view.View) {
		switch ref.Kind {
		case record.KindHistory, record.KindSecrets:
			_, found = v.Federations.Lookup(ref.Name)
		case record.KindTokens:
			f := v.Federations.Get(ref.Name).Rec
			found = f != nil && f.Phase != record.PhaseDeleting && f.Phase != record.PhaseRollingBack && !f.Phase.Result() &&
				v.OnCluster.Has(ref.Cluster, ref.Name)
		case record.KindSpec:
			d := v.Desired(ref.Cluster, ref.Name)
			found = d.Rec != nil && (d.Rec.Spec == ref.Name+"/"+ref.Rest || v.Proposed(d.Rec, ref.Name+"/"+ref.Rest))
		default:
			found = true // its life does not end here
		}
	})
	return found
}

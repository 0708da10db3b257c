package clusters

import (
	"context"
	"fmt"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// MarkSameOscar tells each cluster that has to do with this one whether its OSCAR is another
// one's, too.
func (c *Controller) MarkSameOscar(ctx context.Context, cluster string) error {
	wrong := map[string]string{}
	c.state.Read(func(v *view.View) {
		for other := range v.WithOscarOf(cluster) {
			_, registered := v.Clusters.Lookup(other)
			told := v.Nodes.Get(other).DesiredSelf.Rec
			if !registered || told == nil {
				continue
			}
			if is := v.SameOscarAs(other); is != told.SameOscarAs {
				wrong[other] = is
			}
		}
	})
	for other, is := range wrong {
		if err := c.writeSameOscar(ctx, other, is); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) writeSameOscar(ctx context.Context, cluster, first string) error {
	key, desired := record.ClusterKey(cluster), record.DesiredClusterKey(cluster)
	written := false
	res, err := c.store.Update(ctx, store.Update{
		Keys: []string{key, desired, record.FenceKey},
		Build: func(v store.View, tx *store.Txn) error {
			written = false
			reg, told, err := registration(v, cluster)
			if err != nil || reg == nil || told == nil || told.UID != reg.UID || told.SameOscarAs == first {
				return err
			}
			written = true
			told.SameOscarAs = first
			tx.Expect(key)
			tx.Expect(desired)
			tx.Put(desired, told)
			detail := "its OSCAR is no other cluster's any more"
			if first != "" {
				detail = fmt.Sprintf("its OSCAR is that of cluster %q: nothing is written to it", first)
			}
			request.Note(tx, c.cfg.Now(), record.Audit{Action: record.ActionClusterState, Outcome: record.OutcomeDone, ClusterID: cluster, Detail: detail})
			return gate.BumpFence(v, tx, "same oscar "+cluster)
		},
	})
	if err != nil {
		return err
	}
	if written && first != "" {
		c.cfg.Logger.Error("one OSCAR is registered as two clusters: nothing is written to it for the second one", "cluster", cluster, "first", first,
			"advice", "oscarfed cluster remove "+cluster)
	}
	return c.gate.Shows(ctx, res.Revision)
}

package clusters

import (
	"context"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// oscarStays is how long a cluster has to have an OSCAR of its own before it is told so, or one that is another cluster's than it was
// told. A hostile cluster that says one and the other in turn would fill the audit, and each time have all that is being created
// drafted anew. That its OSCAR is another one's a cluster is told at once.
const oscarStays = 5 * time.Minute

// MarkSameOscar tells each cluster that has to do with this one whether its OSCAR is another
// one's, too. It returns when to look again, if that is not certain yet.
func (c *Controller) MarkSameOscar(ctx context.Context, cluster string) (again time.Duration, err error) {
	type verdict struct{ uid, is string }
	wrong, now := map[string]verdict{}, c.cfg.Now()
	c.state.Read(func(v *view.View) {
		for other := range v.WithOscarOf(cluster) {
			_, registered := v.Clusters.Lookup(other)
			told := v.Nodes.Get(other).DesiredSelf.Rec
			if !registered || told == nil {
				c.oscars.Forget(other)
				continue
			}
			is := v.SameOscarAs(other)
			if is == told.SameOscarAs {
				c.oscars.Forget(other)
				continue
			}
			_, there := v.Clusters.Lookup(told.SameOscarAs)
			if left := oscarStays - now.Sub(c.oscars.Since(other, is, now)); there && left > 0 {
				again = max(again, left)
				continue
			}
			wrong[other] = verdict{told.UID, is}
		}
	})
	for other, w := range wrong {
		if err := c.writeSameOscar(ctx, other, w.uid, w.is); err != nil {
			return 0, err
		}
	}
	return again, nil
}

// writeSameOscar tells a cluster, unless it was registered anew since.
func (c *Controller) writeSameOscar(ctx context.Context, cluster, uid, first string) error {
	key, desired := record.ClusterKey(cluster), record.DesiredClusterKey(cluster)
	written := false
	res, err := c.store.Update(ctx, store.Update{
		Keys: []string{key, desired, record.FenceKey},
		Build: func(v store.View, tx *store.Txn) error {
			written = false
			reg, told, err := registration(v, cluster)
			if err != nil || reg == nil || told == nil || reg.UID != uid || told.UID != uid || told.SameOscarAs == first {
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

package controlplane

import (
	"context"
	"fmt"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// One OSCAR that is registered under two ids has two syncers, each of which takes the
// other one's services for what nobody knows. The registration that came first keeps
// it; nothing is written there for the others, nor placed on them, until one is removed.

// oscarID says which OSCAR a cluster is; empty when nobody knows.
func (v *View) oscarID(cluster string) string {
	reg, registered := v.clusters[cluster]
	if !registered {
		return ""
	}
	if n := v.nodes[cluster]; n != nil && n.self.rec != nil && n.self.rec.OscarID != "" {
		return n.self.rec.OscarID
	}
	if reg.rec.Joined != nil {
		return reg.rec.Joined.OscarID
	}
	return ""
}

// registeredAs is the first cluster, other than that one, that an OSCAR is registered as;
// empty for none.
func (v *View) registeredAs(id, other string) string {
	first := ""
	for cluster, reg := range v.clusters {
		if id == "" || cluster == other || v.oscarID(cluster) != id {
			continue
		}
		if first == "" || earlier(reg.rec, v.clusters[first].rec) {
			first = cluster
		}
	}
	return first
}

// sameOscarAs is the cluster that a cluster's OSCAR was registered as before.
func (v *View) sameOscarAs(cluster string) string {
	reg, registered := v.clusters[cluster]
	if !registered || reg.rec.Removal != nil { // what is removed has its tombstones to see to
		return ""
	}
	first := v.registeredAs(v.oscarID(cluster), cluster)
	if first == "" || earlier(reg.rec, v.clusters[first].rec) {
		return ""
	}
	return first
}

func earlier(a, b *record.Cluster) bool {
	if !a.RegisteredAt.Equal(b.RegisteredAt.Time) {
		return a.RegisteredAt.Before(b.RegisteredAt.Time)
	}
	return a.UID < b.UID
}

// tellTwins tells each cluster that has to do with this one whether its OSCAR is another
// one's, too.
func (c *ControlPlane) tellTwins(ctx context.Context, cluster string) error {
	wrong := map[string]string{}
	c.state.read(func(v *View) {
		id := v.oscarID(cluster)
		for other := range v.clusters {
			n := v.nodes[other]
			if n == nil || n.desiredSelf.rec == nil {
				continue
			}
			told := n.desiredSelf.rec.SameOscarAs
			if other != cluster && told != cluster && (id == "" || v.oscarID(other) != id) {
				continue
			}
			if is := v.sameOscarAs(other); is != told {
				wrong[other] = is
			}
		}
	})
	for other, is := range wrong {
		if err := c.tellTwin(ctx, other, is); err != nil {
			return err
		}
	}
	return nil
}

func (c *ControlPlane) tellTwin(ctx context.Context, cluster, first string) error {
	key, desired := record.ClusterKey(cluster), record.DesiredClusterKey(cluster)
	written := false
	res, err := c.store.Update(ctx, store.Update{
		Keys: []string{key, desired, record.FenceKey},
		Build: func(v store.View, tx *store.Txn) error {
			written = false
			_, reg, err := decodeAt[record.Cluster](v, key)
			if err != nil {
				return err
			}
			_, told, err := decodeAt[record.DesiredCluster](v, desired)
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
			note(tx, c.cfg.Now(), record.Audit{Action: record.ActionClusterState, Outcome: record.OutcomeDone, ClusterID: cluster, Detail: detail})
			return bumpFence(v, tx, "same oscar "+cluster)
		},
	})
	if err != nil {
		return err
	}
	if written && first != "" {
		c.cfg.Logger.Error("one OSCAR is registered as two clusters: nothing is written to it for the second one", "cluster", cluster, "first", first,
			"advice", "oscarfed cluster remove "+cluster)
	}
	return c.shows(ctx, res.Revision)
}

// elsewhere names the cluster that an orphan of this one belongs to: that whose mark it
// carries, or on which the store knows its life; empty for none.
func (v *View) elsewhere(cluster string, o record.Orphan) string {
	if o.ClusterID != "" && o.ClusterID != cluster {
		return o.ClusterID
	}
	for other, n := range v.nodes {
		if d := n.desired[o.ServiceName].rec; other != cluster && d != nil && d.UID == o.UID {
			return other
		}
	}
	if d, known := v.deleted[o.UID]; known && d.rec.ClusterID != cluster {
		return d.rec.ClusterID
	}
	return ""
}

package controlplane

import (
	"context"
	"errors"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// orphans deals, cluster by cluster, with services that carry our marks and that
// nothing desires. A syncer holds and reports them. One that deleted/<uid> knows
// (a create that took effect after its rollback was acknowledged) gets a
// tombstone again; any other is left to people: absence is never an order.
func (c *ControlPlane) orphans(ctx context.Context) {
	for {
		cluster, shutdown := c.lost.Get()
		if shutdown {
			return
		}
		err := c.orphansOf(ctx, cluster)
		switch {
		case err == nil:
			c.lost.Forget(cluster)
		case ctx.Err() == nil:
			if !errors.Is(err, errStale) {
				c.cfg.Logger.Warn("orphans were not dealt with; it is tried again", "cluster", cluster, "error", err)
			}
			c.lost.AddRateLimited(cluster)
		}
		c.lost.Done(cluster)
	}
}

// orphanStep is one transaction about an orphan. It compares and writes the
// deleted record, since the federation may be long gone; the federation as well
// while it is kept.
type orphanStep struct {
	cluster, service string
	deleted          versioned[record.Deleted]
	// put is the tombstone to write; nil takes the acknowledged one away.
	put *record.Desired
	// desired is the revision of the tombstone that goes.
	desired int64
}

func (c *ControlPlane) orphansOf(ctx context.Context, cluster string) error {
	if c.doubtful() {
		return errStale
	}
	if err := c.tellTwins(ctx, cluster); err != nil {
		return err
	}
	if err := c.adopt(ctx, cluster); err != nil {
		return err
	}
	var steps []orphanStep
	c.state.read(func(v *View) { steps = v.orphanSteps(cluster) })
	for _, s := range steps {
		if s.put != nil {
			s.put.Mark = record.Mark(c.serviceToken(s.put.UID))
			s.put.RequestID = newUID()
		}
		if s.deleted.rev == 0 {
			s.deleted.rec.DeletedAt = record.At(c.cfg.Now())
		}
		if err := c.writeOrphan(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (v *View) orphanSteps(cluster string) []orphanStep {
	n := v.nodes[cluster]
	if n == nil || n.desiredSelf.rec == nil {
		return nil
	}
	uid := n.desiredSelf.rec.UID
	_, registered := v.clusters[cluster]
	var out []orphanStep
	if n.self.rec != nil {
		for _, o := range n.self.rec.Orphans {
			d, known := v.deleted[o.UID]
			if !known || d.rec.Foreign || d.rec.ClusterID != cluster || d.rec.ServiceName != o.ServiceName ||
				d.rec.ClusterUID != "" && d.rec.ClusterUID != uid || n.desired[o.ServiceName].rec != nil {
				continue
			}
			out = append(out, orphanStep{cluster: cluster, service: o.ServiceName, deleted: d, put: &record.Desired{
				V: record.Version, Intent: record.IntentDelete, Federation: d.rec.Federation, GroupID: d.rec.GroupID, UID: o.UID,
				Generation: max(d.rec.Generation, o.Generation), Epoch: o.Epoch, Owner: d.rec.Owner, Cause: d.rec.Cause,
			}})
		}
	}
	for service, d := range n.desired {
		if !d.rec.Tombstone() {
			continue
		}
		r := replicaState{desired: d.rec, desiredRev: d.rev, observed: n.observed[service].rec}
		known, ok := v.deleted[d.rec.UID]
		if !ok {
			if !registered && r.acknowledged() { // it belongs to no federation any more
				out = append(out, orphanStep{cluster: cluster, service: service, desired: d.rev,
					deleted: versioned[record.Deleted]{rec: memoryOf(d.rec, r.observed, cluster, uid, service)}})
			}
			continue
		}
		if r.acknowledged() {
			if r.observed.Operation != "delete" {
				// Nothing of ours was there: what carries our marks is a copy.
				memory := *known.rec
				memory.Foreign = true
				known.rec = &memory
			}
			out = append(out, orphanStep{cluster: cluster, service: service, deleted: known, desired: d.rev})
		}
	}
	return out
}

// memoryOf is the memory of a tombstone that was acknowledged after its cluster was
// removed.
func memoryOf(t *record.Desired, o *record.Observed, cluster, clusterUID, service string) *record.Deleted {
	out := &record.Deleted{
		V: record.Version, UID: t.UID, Federation: t.Federation, GroupID: t.GroupID, ClusterID: cluster, ServiceName: service,
		Owner: t.Owner, Generation: t.Generation, Cause: t.Cause, ClusterUID: clusterUID,
		Foreign: t.Keep == record.KeepRelease,
	}
	if t.Keep == "" {
		out.BucketsLeft, out.BucketFates, out.VolumeFate = o.BucketsMade, o.BucketFates, o.VolumeFate
	}
	return out
}

func (c *ControlPlane) writeOrphan(ctx context.Context, s orphanStep) error {
	desired, deleted := record.DesiredServiceKey(s.cluster, s.service), record.DeletedKey(s.deleted.rec.UID)
	federation := record.FederationKey(s.deleted.rec.Federation)
	res, err := c.store.Update(ctx, store.Update{
		Keys: []string{desired, deleted, federation},
		Build: func(v store.View, tx *store.Txn) error {
			kv, _ := v.KV(desired)
			memory, _ := v.KV(deleted)
			if kv.ModRevision != s.desired || memory.ModRevision != s.deleted.rev {
				return errStale
			}
			tx.Expect(desired)
			tx.Expect(deleted)
			tx.Put(deleted, s.deleted.rec)
			tx.Touch(deleted)
			if fed, ok := v.KV(federation); ok { // a result is still kept
				tx.Expect(federation)
				tx.PutBytes(federation, fed.Value)
				tx.Touch(federation)
			}
			if s.put != nil {
				tx.Put(desired, s.put)
				return nil
			}
			tx.Delete(desired)
			tx.Delete(record.ObservedServiceKey(s.cluster, s.service))
			return nil
		},
	})
	if err != nil {
		return err
	}
	return c.shows(ctx, res.Revision)
}

package recovery

import (
	"context"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// orphanStep is one transaction about an orphan. It compares and writes the deleted record, since
// the federation may be gone, and the federation while there is one.
type orphanStep struct {
	cluster, service string
	deleted          view.Versioned[record.Deleted]
	// put is the tombstone to write; nil takes the acknowledged one away.
	put *record.Desired
	// desired is the revision of the tombstone that goes.
	desired int64
	// epoch is the one that the step is decided in.
	epoch string
	// entry is that of the audit when a person has decided; nil otherwise.
	entry *record.Audit
}

// orphansOf handles the services of a cluster that carry our marks and have no desired record. A
// syncer holds and reports them. One with a record deleted/<uid> (its create took effect after
// its rollback was acknowledged) gets a tombstone again. A person decides about any other:
// absence is never an order.
func (c *Controller) orphansOf(ctx context.Context, cluster string) (again time.Duration, err error) {
	if c.gate.Unverified() {
		return 0, gate.ErrStale
	}
	if again, err = c.clusters.MarkSameOscar(ctx, cluster); err != nil {
		return 0, err
	}
	if err := c.adopt(ctx, cluster); err != nil {
		return 0, err
	}
	var steps []orphanStep
	var epoch string
	c.state.Read(func(v *view.View) { steps, epoch = orphanSteps(v, cluster), v.Epoch() })
	for _, s := range steps {
		s.epoch = epoch
		if s.put != nil {
			s.put.Mark = record.Mark(c.tokens.ServiceToken(s.put.UID))
			s.put.RequestID = record.NewUID()
		}
		if s.deleted.Rev == 0 {
			s.deleted.Rec.DeletedAt = record.At(c.cfg.Now())
		}
		if err := c.writeOrphan(ctx, s); err != nil {
			return 0, err
		}
	}
	return again, nil
}

func orphanSteps(v *view.View, cluster string) []orphanStep {
	n := v.Nodes.Get(cluster)
	if n.DesiredSelf.Rec == nil {
		return nil
	}
	uid := n.DesiredSelf.Rec.UID
	_, registered := v.Clusters.Lookup(cluster)
	var out []orphanStep
	if n.Self.Rec != nil {
		for _, o := range n.Self.Rec.Orphans {
			d, known := v.Deleted.Lookup(o.UID)
			if !known || d.Rec.Foreign || d.Rec.ClusterID != cluster || d.Rec.ServiceName != o.ServiceName ||
				d.Rec.ClusterUID != "" && d.Rec.ClusterUID != uid || acknowledgedSince(n.Self.Rec, d) || n.Desired.Get(o.ServiceName).Rec != nil {
				continue
			}
			out = append(out, orphanStep{cluster: cluster, service: o.ServiceName, deleted: d, put: &record.Desired{
				V: record.Version, Intent: record.IntentDelete, Federation: d.Rec.Federation, GroupID: d.Rec.GroupID, UID: o.UID,
				Generation: max(d.Rec.Generation, o.Generation), Epoch: o.Epoch, Owner: d.Rec.Owner, Cause: d.Rec.Cause,
			}})
		}
	}
	for service, d := range n.Desired.All() {
		if !d.Rec.Tombstone() {
			continue
		}
		r := view.ReplicaState{Desired: d.Rec, DesiredRev: d.Rev, Observed: n.Observed.Get(service).Rec}
		known, ok := v.Deleted.Lookup(d.Rec.UID)
		if !ok {
			if !registered && r.Acknowledged() { // it belongs to no federation any more
				out = append(out, orphanStep{cluster: cluster, service: service, desired: d.Rev,
					deleted: view.Versioned[record.Deleted]{Rec: memoryOf(d.Rec, r.Observed, cluster, uid, service)}})
			}
			continue
		}
		if r.Acknowledged() {
			if r.Observed.Operation != record.OperationDelete {
				// Nothing of ours was there: the service with our marks is a copy.
				memory := *known.Rec
				memory.Foreign = true
				known.Rec = &memory
			}
			out = append(out, orphanStep{cluster: cluster, service: service, deleted: known, desired: d.Rev})
		}
	}
	return out
}

// acknowledgedSince says that a deletion was acknowledged after a cluster has listed its orphans: what
// it lists may be what has gone. An older syncer does not say when that was.
func acknowledgedSince(self *record.ObservedCluster, d view.Versioned[record.Deleted]) bool {
	return self.OrphansAt != 0 && d.Rev > self.OrphansAt
}

// memoryOf is the deleted record of a tombstone that was acknowledged after its cluster was removed.
func memoryOf(t *record.Desired, o *record.Observed, cluster, clusterUID, service string) *record.Deleted {
	out := &record.Deleted{
		V: record.Version, UID: t.UID, Federation: t.Federation, GroupID: t.GroupID, ClusterID: cluster, ServiceName: service,
		Owner: t.Owner, Generation: t.Generation, Cause: t.Cause, ClusterUID: clusterUID,
		Foreign: t.Keep == record.KeepRelease,
	}
	out.Remember(o, t.Keep)
	return out
}

func (c *Controller) writeOrphan(ctx context.Context, s orphanStep) error {
	desired, deleted := record.DesiredServiceKey(s.cluster, s.service), record.DeletedKey(s.deleted.Rec.UID)
	federation := record.FederationKey(s.deleted.Rec.Federation)
	res, err := c.store.Update(ctx, store.Update{
		Keys: []string{record.MetaKey, desired, deleted, federation},
		Build: func(v store.View, tx *store.Txn) error {
			if err := gate.DecidedIn(v, tx, s.epoch); err != nil {
				return err
			}
			kv, _ := v.KV(desired)
			memory, _ := v.KV(deleted)
			if kv.ModRevision != s.desired || memory.ModRevision != s.deleted.Rev {
				return gate.ErrStale
			}
			tx.Expect(desired)
			tx.Expect(deleted)
			tx.Put(deleted, s.deleted.Rec)
			tx.Touch(deleted)
			if fed, ok := v.KV(federation); ok { // a result is still kept
				tx.Expect(federation)
				tx.PutBytes(federation, fed.Value)
				tx.Touch(federation)
			}
			if s.entry != nil {
				request.Note(tx, c.cfg.Now(), *s.entry)
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
	return c.gate.Shows(ctx, res.Revision)
}

package clusters

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// A readmission deletes the reports of a cluster. Its syncer looks at its OSCAR again and reports anew, but some things that it
// has reported cannot be seen any more: which buckets and volume go with a service, that a service stood which is gone, that a
// Secret without a service is ours, what the end of a service has left, and that a refresh token was revoked. The orders keep
// these.

const (
	// toldAtOnce is how many orders one transaction changes at most: each with its federation.
	toldAtOnce = 20
	// maxTold bounds what an order keeps, in bytes: a hostile syncer could report what no order has room for.
	maxTold = 32 << 10
)

// toldReport is an order that is to keep what is reported about it.
type toldReport struct {
	key, federation string
	// next is the order with it, and rev the revision of the order.
	next any
	rev  int64
}

// keepTold writes into orders what the reports of a revoked cluster say and its OSCAR cannot show.
func (c *Controller) keepTold(ctx context.Context, cluster string) error {
	var forgotten []toldReport
	c.state.Read(func(v *view.View) { forgotten = forgottenReports(v, cluster) })
	for some := range slices.Chunk(forgotten, toldAtOnce) {
		if err := gate.InParts(some, func(part []toldReport) error { return c.keepTogether(ctx, part) }); err != nil {
			return err
		}
	}
	return nil
}

// keepTogether is one transaction of keepTold.
func (c *Controller) keepTogether(ctx context.Context, some []toldReport) error {
	var keys []string
	for _, r := range some {
		keys = append(keys, r.key, record.FederationKey(r.federation))
	}
	slices.Sort(keys)
	res, err := c.store.Update(ctx, store.Update{Keys: slices.Compact(keys), Build: func(v store.View, tx *store.Txn) error {
		for _, r := range some {
			kv, _ := v.KV(r.key)
			fedKey := record.FederationKey(r.federation)
			fedKV, ok := v.KV(fedKey)
			if kv.ModRevision != r.rev || !ok {
				continue // it is looked at again
			}
			fed, err := store.Decode[record.Federation](fedKV)
			if err != nil {
				return err
			}
			tx.Expect(r.key)
			tx.Expect(fedKey)
			tx.Put(r.key, r.next)
			tx.Put(fedKey, fed)
			tx.Touch(fedKey)
		}
		return nil
	}})
	if err != nil {
		return err
	}
	return c.gate.Shows(ctx, res.Revision)
}

// forgottenReports are the orders that a readmission of a revoked cluster would leave without what was reported.
func forgottenReports(v *view.View, cluster string) (out []toldReport) {
	if reg := v.Clusters.Get(cluster).Rec; reg == nil || reg.Revoked == nil {
		return nil
	}
	n := v.Nodes.Get(cluster)
	for name, d := range n.Desired.All() {
		told := toldOf(d, n.Observed.Get(name).Rec)
		if reflect.DeepEqual(told, d.Rec.Told) || v.Federations.Get(d.Rec.Federation).Rec == nil {
			continue
		}
		next := *d.Rec
		next.Told = told
		out = append(out, toldReport{record.DesiredServiceKey(cluster, name), d.Rec.Federation, next, d.Rev})
	}
	for _, uid := range v.Tokens.HeldBy(cluster) {
		tokens := v.Tokens.Get(uid)
		hold, report := tokens.Holds[cluster], tokens.Holdings[cluster].Rec
		if hold.Rec == nil || report == nil || report.Serial != hold.Rec.Serial || v.Federations.Get(uid).Rec == nil {
			continue
		}
		next := *hold.Rec
		next.Revoked, next.Unrevoked = report.Revoked, report.Unrevoked
		if next != *hold.Rec {
			out = append(out, toldReport{record.HoldKey(cluster, uid), uid, next, hold.Rev})
		}
	}
	return out
}

// toldOf is what an order keeps of the report about it, beside what it has kept of earlier ones; nil for nothing.
func toldOf(order view.Versioned[record.Desired], o *record.Observed) *record.Told {
	d := order.Rec
	if o == nil || o.UID != d.UID || record.Strange(d) != "" || d.End() != nil {
		return d.Told
	}
	var out record.Told
	if d.Told != nil {
		out = *d.Told
	}
	out.Applied = cmp.Or(o.Applied(), out.Applied)
	if d.Tombstone() && d.Data == record.DataDelete && o.Phase != record.PhaseDeleted {
		if len(o.BucketsMade) > 0 {
			out.BucketsMade = o.BucketsMade
		}
		out.Volume = cmp.Or(o.Volume, out.Volume)
	}
	if o.Bare != "" || o.ReadBack != "" || o.Phase == record.PhaseDeleted {
		out.Bare = o.Bare
	}
	if (view.ReplicaState{Desired: d, DesiredRev: order.Rev, Observed: o}).Acknowledged() {
		out = record.Told{End: &record.End{
			BucketsMade: o.BucketsMade, BucketFates: o.BucketFates, VolumeFate: o.VolumeFate, SecretLeft: o.SecretLeft,
			Operation: o.Operation, Message: o.Message,
		}}
	}
	if raw, err := record.Encode(out); err != nil || len(raw) > maxTold {
		return d.Told
	}
	if reflect.DeepEqual(out, record.Told{}) {
		return nil
	}
	return &out
}

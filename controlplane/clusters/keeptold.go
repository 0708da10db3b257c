package clusters

import (
	"context"
	"reflect"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// A readmission deletes the reports of a cluster. Its syncer looks at its OSCAR again and reports anew, but some things that it
// has reported cannot be seen any more: which buckets a service has made that is gone, that a service stood which is gone,
// whose a Secret is that stands alone, and that a refresh token was revoked. The orders keep these.

// toldAtOnce is how many orders one transaction changes: each with its federation. maxBare bounds what each keeps of a
// bare service, in bytes; a syncer writes some kilobytes.
const (
	toldAtOnce = 10
	maxBare    = 32 << 10
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
	for some := range slices.Chunk(c.forgottenReports(cluster), toldAtOnce) {
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
		if err == nil {
			err = c.gate.Shows(ctx, res.Revision)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forgottenReports are the orders that a readmission of a revoked cluster would leave without what was reported.
func (c *Controller) forgottenReports(cluster string) (out []toldReport) {
	c.state.Read(func(v *view.View) {
		if reg := v.Clusters.Get(cluster).Rec; reg == nil || reg.Revoked == nil {
			return
		}
		n := v.Nodes.Get(cluster)
		for name, d := range n.Desired.All() {
			told := toldOf(d.Rec, n.Observed.Get(name).Rec)
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
	})
	return out
}

// toldOf is what an order keeps of the report about it, beside what it has kept of earlier ones; nil for nothing.
func toldOf(d *record.Desired, o *record.Observed) *record.Told {
	if o == nil || o.UID != d.UID || record.Strange(d) != "" {
		return d.Told
	}
	var out record.Told
	if d.Told != nil {
		out = *d.Told
	}
	if applied := o.Applied(); applied != 0 && d.Intent == record.IntentApply && d.Drift == oscar.DriftReport {
		out.Applied = applied
	}
	if len(o.BucketsMade) > 0 && d.Tombstone() && d.Data == record.DataDelete && o.Phase != record.PhaseDeleted {
		out.BucketsMade = o.BucketsMade
	}
	if o.Bare != "" || o.ReadBack != "" || o.Phase == record.PhaseDeleted {
		out.Bare = ""
		if len(o.Bare) <= maxBare {
			out.Bare = o.Bare
		}
	}
	if out.Applied == 0 && len(out.BucketsMade) == 0 && out.Bare == "" {
		return nil
	}
	return &out
}

package federations

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// maxDeleted bounds the list of deleted replicas; the newest come first.
const maxDeleted = 1000

// Deleted lists the caller's replicas that were deleted in the last 90 days. Those whose
// clusters have not acknowledged it yet come first. groupID may be empty.
func (c *Controller) Deleted(ctx context.Context, caller identity.Caller, groupID string) ([]v1.DeletedReplica, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	out := []v1.DeletedReplica{}
	c.state.Read(func(v *view.View) {
		wanted := func(owner, group string) bool {
			return caller.MayChange(owner) && (groupID == "" || groupID == group)
		}
		for _, f := range v.Federations.All() {
			if !wanted(f.Rec.Owner, f.Rec.GroupID) {
				continue
			}
			for _, m := range slices.Concat(f.Rec.Members, f.Rec.Leaving) {
				if d := v.Desired(m.ClusterID, m.ServiceName); d.Rec != nil && d.Rec.UID == m.UID && d.Rec.Tombstone() {
					out = append(out, deletedReplica(v, f.Rec, m))
				}
			}
		}
		for _, d := range v.Deleted.All() {
			if wanted(d.Rec.Owner, d.Rec.GroupID) {
				out = append(out, remembered(d.Rec))
			}
		}
	})
	slices.SortFunc(out, func(a, b v1.DeletedReplica) int {
		if a.Pending != b.Pending {
			if a.Pending {
				return -1
			}
			return 1
		}
		return cmp.Or(deletedAt(b).Compare(deletedAt(a)), cmp.Compare(a.UID, b.UID))
	})
	return out[:min(len(out), maxDeleted)], nil
}

// remembered is a replica whose record is gone.
func remembered(d *record.Deleted) v1.DeletedReplica {
	out := v1.DeletedReplica{
		UID: d.UID, Federation: d.Federation, GroupID: d.GroupID, ClusterID: d.ClusterID, ServiceName: d.ServiceName,
		Owner: d.Owner, Cause: string(d.Cause), Buckets: bucketFates(d.BucketFates), Volume: (*v1.VolumeFate)(d.VolumeFate),
	}
	if !d.DeletedAt.IsZero() {
		out.DeletedAt = new(v1.Time(d.DeletedAt))
	}
	return out
}

// deletedReplica shows the outcome for a member that was ordered to be deleted.
func deletedReplica(v *view.View, f *record.Federation, m record.Member) v1.DeletedReplica {
	if d, ok := v.Deleted.Lookup(m.UID); ok {
		return remembered(d.Rec)
	}
	out := v1.DeletedReplica{
		UID: m.UID, Federation: f.UID, GroupID: f.GroupID, ClusterID: m.ClusterID, ServiceName: m.ServiceName, Owner: f.Owner,
		Buckets: []v1.BucketFate{},
	}
	d := v.Desired(m.ClusterID, m.ServiceName)
	if d.Rec == nil || d.Rec.UID != m.UID || !d.Rec.Tombstone() {
		return out // nothing of it was ever made
	}
	out.Cause = string(d.Rec.Cause)
	r := view.ReplicaState{Desired: d.Rec, DesiredRev: d.Rev, Observed: v.Observed(m.ClusterID, m.ServiceName).Rec,
		Alive: v.Alive(m.ClusterID), Trouble: v.Trouble(m.ClusterID)}
	switch {
	case r.Acknowledged():
		out.Buckets, out.Volume = bucketFates(r.Observed.BucketFates), (*v1.VolumeFate)(r.Observed.VolumeFate)
	case !r.Alive:
		out.Pending, out.Message = true, "the cluster is away; it will be told when it is back"
	case r.DefinitelyFailed():
		out.Pending, out.Message = true, r.Observed.Message
	case r.Trouble.Away:
		out.Pending, out.Message = true, r.Trouble.Message+"; it is deleted when that is mended"
	default:
		out.Pending, out.Message = true, r.Waits()
	}
	return out
}

// deletedAt is when a replica was deleted; zero while it is pending.
func deletedAt(d v1.DeletedReplica) time.Time {
	if d.DeletedAt == nil {
		return time.Time{}
	}
	return d.DeletedAt.Time
}

func bucketFates(list []record.BucketFate) []v1.BucketFate {
	out := make([]v1.BucketFate, len(list))
	for i, b := range list {
		out[i] = v1.BucketFate(b)
	}
	return out
}

// fatesOf shows the outcomes for members that were ordered to be deleted.
func (c *Controller) fatesOf(f *record.Federation, members []record.Member) []v1.DeletedReplica {
	var out []v1.DeletedReplica
	c.state.Read(func(v *view.View) {
		for _, m := range members {
			if m.Replica() {
				out = append(out, deletedReplica(v, f, m))
			}
		}
	})
	return out
}

// withRemoved adds the outcomes of the removed members to a change's result, after waiting for
// those that are reachable.
func (c *Controller) withRemoved(ctx context.Context, res *ChangeResult, p view.MemberRef, wait time.Duration) *ChangeResult {
	var after []record.Member
	c.state.Read(func(v *view.View) {
		if f, ok := v.Federations.Lookup(p.UID); ok {
			after = f.Rec.Members
		}
	})
	gone := slices.DeleteFunc(slices.Clone(p.Rec.Members), func(m record.Member) bool {
		return !m.Replica() || view.MemberOf(after, m.UID) >= 0
	})
	if len(gone) == 0 {
		return res
	}
	c.awaitGone(ctx, p.UID, wait, leavingReplicas)
	res.Removed = c.fatesOf(p.Rec, gone)
	return res
}

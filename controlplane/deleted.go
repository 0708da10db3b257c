package controlplane

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
)

// maxDeleted bounds the list of what was deleted; the newest come first.
const maxDeleted = 1000

// Deleted lists the replicas of the caller's that were deleted in the last 90 days,
// and those whose clusters have not acknowledged it yet, first. groupID may be empty.
func (c *ControlPlane) Deleted(ctx context.Context, caller identity.Caller, groupID string) ([]DeletedReplica, error) {
	if err := c.fresh(ctx); err != nil {
		return nil, err
	}
	out := []DeletedReplica{}
	c.state.read(func(v *View) {
		wanted := func(owner, group string) bool {
			return caller.MayChange(owner) && (groupID == "" || groupID == group)
		}
		for _, f := range v.federations {
			if !wanted(f.rec.Owner, f.rec.GroupID) {
				continue
			}
			for _, m := range slices.Concat(f.rec.Members, f.rec.Leaving) {
				if d := v.desired(m.ClusterID, m.ServiceName); d.rec != nil && d.rec.UID == m.UID && d.rec.Tombstone() {
					out = append(out, v.deletedReplica(f.rec, m))
				}
			}
		}
		for _, d := range v.deleted {
			if wanted(d.rec.Owner, d.rec.GroupID) {
				out = append(out, remembered(d.rec))
			}
		}
	})
	slices.SortFunc(out, func(a, b DeletedReplica) int {
		if a.Pending != b.Pending {
			if a.Pending {
				return -1
			}
			return 1
		}
		return cmp.Or(b.DeletedAt.Compare(a.DeletedAt), cmp.Compare(a.UID, b.UID))
	})
	return out[:min(len(out), maxDeleted)], nil
}

// remembered is a replica whose record is gone.
func remembered(d *record.Deleted) DeletedReplica {
	return DeletedReplica{
		UID: d.UID, Federation: d.Federation, GroupID: d.GroupID, ClusterID: d.ClusterID, ServiceName: d.ServiceName,
		Owner: d.Owner, Cause: d.Cause, Buckets: d.BucketFates, Volume: d.VolumeFate, DeletedAt: d.DeletedAt.Time,
	}
}

// deletedReplica tells what became of a member that was ordered to be deleted.
func (v *View) deletedReplica(f *record.Federation, m record.Member) DeletedReplica {
	if d, ok := v.deleted[m.UID]; ok {
		return remembered(d.rec)
	}
	out := DeletedReplica{
		UID: m.UID, Federation: f.UID, GroupID: f.GroupID, ClusterID: m.ClusterID, ServiceName: m.ServiceName, Owner: f.Owner,
	}
	d := v.desired(m.ClusterID, m.ServiceName)
	if d.rec == nil || d.rec.UID != m.UID || !d.rec.Tombstone() {
		return out // nothing of it was ever made
	}
	out.Cause = d.rec.Cause
	r := replicaState{desired: d.rec, desiredRev: d.rev, observed: v.observed(m.ClusterID, m.ServiceName).rec,
		alive: v.alive(m.ClusterID), trouble: v.trouble(m.ClusterID)}
	switch {
	case r.acknowledged():
		out.Buckets, out.Volume = r.observed.BucketFates, r.observed.VolumeFate
	case !r.alive:
		out.Pending, out.Message = true, "the cluster is away; it will be told when it is back"
	case r.definitelyFailed():
		out.Pending, out.Message = true, r.observed.Message
	case r.trouble.away:
		out.Pending, out.Message = true, r.trouble.message+"; it is deleted when that is mended"
	default:
		out.Pending = true
	}
	return out
}

// fatesOf tells what became of members that were ordered to be deleted.
func (c *ControlPlane) fatesOf(f *record.Federation, members []record.Member) []DeletedReplica {
	var out []DeletedReplica
	c.state.read(func(v *View) {
		for _, m := range members {
			if m.Replica() {
				out = append(out, v.deletedReplica(f, m))
			}
		}
	})
	return out
}

// withRemoved adds to a change's result what became of the members that it removed,
// after waiting for those that can be waited for.
func (c *ControlPlane) withRemoved(ctx context.Context, res *ChangeResult, p place, wait time.Duration) *ChangeResult {
	var after []record.Member
	c.state.read(func(v *View) {
		if f, ok := v.federations[p.uid]; ok {
			after = f.rec.Members
		}
	})
	gone := slices.DeleteFunc(slices.Clone(p.rec.Members), func(m record.Member) bool {
		return !m.Replica() || memberOf(after, m.UID) >= 0
	})
	if len(gone) == 0 {
		return res
	}
	c.awaitGone(ctx, p.uid, wait, func(s situation) []replicaState { return s.leaving })
	res.Removed = c.fatesOf(p.rec, gone)
	return res
}

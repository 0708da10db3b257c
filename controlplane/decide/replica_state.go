package decide

import (
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// PlacedAt is a desired record at the location of a replica.
func PlacedAt(r view.ReplicaState, rec *record.Desired) gate.Placed {
	p := gate.Placed{Cluster: r.At.ClusterID, Service: r.At.ServiceName, Rec: rec}
	if r.Desired != nil && r.Desired.Spec != rec.Spec {
		p.DropSpec = r.Desired.Spec
	}
	return p
}

func removalOf(r view.ReplicaState, s view.Situation) removal {
	m := r.At
	out := removal{Cluster: m.ClusterID, Service: m.ServiceName}
	if r.Desired == nil {
		return out
	}
	out.Spec = r.Desired.Spec
	if r.Acknowledged() {
		out.Deleted = &record.Deleted{
			V: record.Version, UID: m.UID, Federation: s.Fed.UID, GroupID: s.Fed.GroupID, ClusterID: m.ClusterID,
			ServiceName: m.ServiceName, Owner: s.Fed.Owner, Generation: r.Desired.Generation, Cause: r.Desired.Cause, DeletedAt: record.At(s.Now),
			ClusterUID: r.ClusterUID, Foreign: r.Desired.Keep == record.KeepRelease,
		}
		if r.Desired.Keep == "" {
			out.Deleted.BucketsLeft, out.Deleted.BucketFates = r.Observed.BucketsMade, r.Observed.BucketFates
			out.Deleted.VolumeFate = r.Observed.VolumeFate
		}
	}
	return out
}

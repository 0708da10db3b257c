package decide

import (
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// Limits are the durations that decisions go by.
type Limits struct {
	// prepareDeadline is how long votes are waited for.
	PrepareDeadline time.Duration
	// applyGrace is added to the expected delay of the slowest write queue.
	ApplyGrace time.Duration
	// prefetchGrace is added for services whose images are prefetched.
	PrefetchGrace time.Duration
	// maxDelay is the longest write queue that a creation is put behind.
	MaxDelay time.Duration
	// keepResult is how long aborted and rolled_back federations are kept.
	KeepResult time.Duration
}

// Decision is the next step of a federation. Everything in it is one transaction
// that compares the federation's record.
type Decision struct {
	// name of the step, for logs and metrics; empty when there is nothing to do.
	Name string
	// fed is the federation's next record; nil leaves it, unless removeFed.
	Fed       *record.Federation
	RemoveFed bool
	// dropName frees the owner's group_id.
	DropName bool
	Put      []gate.Placed
	Remove   []removal
	// drop are further keys that go, and add further records that come.
	Drop []string
	Add  []gate.Staged
	// leave is a cluster that the federation is to be rendered without; the rest
	// of the decision follows from that.
	Leave string
	// fence, when set, is the revision of the fence that what it names was staged after.
	Fence int64
	// request is the hash of the request whose outcome is known with this step.
	Request string
	// again is when the clock alone may change the decision; zero when it cannot.
	Again time.Time
}

// removal takes a desired record, its report and its spec out of the store.
type removal struct {
	Cluster, Service string
	Spec             string
	// deleted is kept for 90 days when a tombstone was acknowledged.
	Deleted *record.Deleted
}

// DeletionOrders are what a deletion orders of the clusters.
type DeletionOrders struct {
	// Data is delete when the buckets that our creates made shall go, Jobs cancel when
	// running jobs shall be ended.
	Data, Jobs string
	RequestID  string
}

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

package decide

import (
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// Limits are the durations that decisions go by.
type Limits struct {
	// PrepareDeadline is how long a creation waits for votes.
	PrepareDeadline time.Duration
	// ApplyGrace is added to the expected delay of the slowest write queue.
	ApplyGrace time.Duration
	// PrefetchGrace is added for services whose images are prefetched.
	PrefetchGrace time.Duration
	// MaxDelay is the longest write queue that a creation is put behind.
	MaxDelay time.Duration
	// KeepResult is how long aborted and rolled_back federations are kept.
	KeepResult time.Duration
}

// Decision is the next step of a federation. Everything in it is one transaction
// that compares the federation's record.
type Decision struct {
	// Step is empty when there is nothing to do.
	Step Step
	// Fed is the federation's next record; nil leaves it, unless RemoveFed.
	Fed       *record.Federation
	RemoveFed bool
	// DropName frees the owner's group_id.
	DropName bool
	Put      []gate.Placed
	Remove   []removal
	// Drop lists further keys to delete, and Add further records to write.
	Drop []string
	Add  []gate.Staged
	// Leave is a cluster that the federation is rendered without; the rest of the decision
	// follows from that.
	Leave string
	// Whole is the uid of a replica that is to get a spec without parts; the rest of the decision
	// follows from that.
	Whole string
	// Fence, when set, is the revision of the fence before the records of this decision were
	// staged.
	Fence int64
	// Request is the hash of the request whose outcome this step decides.
	Request string
	// Again is when the clock alone may change the decision; zero when it cannot.
	Again time.Time
}

// removal takes a desired record, its report and its spec out of the store.
type removal struct {
	Cluster, Service string
	Spec             string
	// Deleted is kept for 90 days after a tombstone was acknowledged.
	Deleted *record.Deleted
}

// DeletionOrders are the orders of a deletion to the clusters.
type DeletionOrders struct {
	// Data is record.DataDelete to delete the buckets that our creates made. Jobs is
	// record.JobsCancel to end running jobs.
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
		out.Deleted.Remember(r.Observed, r.Desired.Keep)
	}
	return out
}

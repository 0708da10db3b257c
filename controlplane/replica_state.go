package controlplane

import (
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// replicaState is one replica: a member with a uid, what is asked of it and what
// its syncer said. desired is nil when its record is gone.
type replicaState struct {
	// at is the member, and member its index in the federation's; -1 for one that
	// is being added or removed.
	at         record.Member
	member     int
	desired    *record.Desired
	desiredRev int64
	observed   *record.Observed
	alive      bool
	// trouble is why nothing can be done on its cluster although that is alive.
	trouble trouble
	// stopped says that its cluster is paused.
	stopped  bool
	lastSeen *time.Time
	// compared says that its cluster has compared everything in the present epoch.
	compared bool
	// clusterUID is the registration of its cluster.
	clusterUID string
	// abandoned says that its tombstone is left to its cluster alone.
	abandoned bool
}

// vote is the syncer's answer to exactly the desired record as it stands.
func (r replicaState) vote() *record.Vote {
	if r.desired == nil || r.observed == nil || r.observed.Vote == nil ||
		r.observed.UID != r.desired.UID || r.observed.Vote.Revision != r.desiredRev {
		return nil
	}
	return r.observed.Vote
}

// reported says whether the syncer reported phase for the desired record as it stands.
func (r replicaState) reported(phase record.Phase) bool {
	return r.desired != nil && r.observed != nil && r.observed.Phase == phase &&
		r.observed.UID == r.desired.UID && r.observed.ObservedGeneration == r.desired.Generation &&
		r.observed.DesiredRevision == r.desiredRev
}

func (r replicaState) definitelyFailed() bool {
	return r.reported(record.PhaseFailed) || r.reported(record.PhaseHeld) || r.reported(record.PhaseWedged)
}

func (r replicaState) acknowledged() bool {
	return r.desired != nil && r.desired.Tombstone() && r.reported(record.PhaseDeleted)
}

// settled says that a tombstone need not be waited for: it is acknowledged, its
// deletion failed (it is tried again), or its cluster is away: without a syncer, out of
// its syncer's reach, or paused.
func (r replicaState) settled() bool {
	return r.acknowledged() || r.definitelyFailed() || r.whyAway() != ""
}

func (r replicaState) failure(fallback record.Reason) *record.Failure {
	f := &record.Failure{
		Reason: r.observed.Reason, Operation: r.observed.Operation,
		Status: r.observed.Status, Message: r.observed.Message,
	}
	if f.Reason == "" {
		f.Reason = fallback
	}
	if f.Operation == "" {
		f.Operation = "create"
	}
	return f
}

func (r replicaState) rollback() *record.Rollback {
	switch {
	case r.abandoned:
		return &record.Rollback{State: record.RollbackPending, Message: "the cluster was removed; its tombstone waits for it"}
	case r.desired == nil:
		return &record.Rollback{State: record.RollbackDeleted}
	case r.acknowledged() && r.observed.Operation == "delete":
		return &record.Rollback{State: record.RollbackDeleted, Message: r.observed.Message}
	case r.acknowledged():
		return &record.Rollback{State: record.RollbackNotCreated, Message: "absence was read back"}
	case r.definitelyFailed():
		return &record.Rollback{State: record.RollbackFailed, Message: r.observed.Message + "; it is tried again"}
	case !r.alive:
		return &record.Rollback{State: record.RollbackPending, Message: "the tombstone waits for the cluster"}
	case r.whyAway() != "":
		return &record.Rollback{State: record.RollbackPending, Message: "the tombstone waits for the cluster: " + r.whyAway()}
	}
	return &record.Rollback{State: record.RollbackPending}
}

func (r replicaState) place(rec *record.Desired) placed {
	p := placed{cluster: r.at.ClusterID, service: r.at.ServiceName, rec: rec}
	if r.desired != nil && r.desired.Spec != rec.Spec {
		p.dropSpec = r.desired.Spec
	}
	return p
}

func (r replicaState) removal(s situation) removal {
	m := r.at
	out := removal{cluster: m.ClusterID, service: m.ServiceName}
	if r.desired == nil {
		return out
	}
	out.spec = r.desired.Spec
	if r.acknowledged() {
		out.deleted = &record.Deleted{
			V: record.Version, UID: m.UID, Federation: s.fed.UID, GroupID: s.fed.GroupID, ClusterID: m.ClusterID,
			ServiceName: m.ServiceName, Owner: s.fed.Owner, Generation: r.desired.Generation, Cause: r.desired.Cause, DeletedAt: record.At(s.now),
			ClusterUID: r.clusterUID, Foreign: r.desired.Keep == record.KeepRelease,
		}
		if r.desired.Keep == "" {
			out.deleted.BucketsLeft, out.deleted.BucketFates = r.observed.BucketsMade, r.observed.BucketFates
			out.deleted.VolumeFate = r.observed.VolumeFate
		}
	}
	return out
}

// deletedSize is about how many bytes are remembered of a replica that is gone.
func (r replicaState) deletedSize() int {
	size := 1 << 10
	for _, name := range r.observed.BucketsMade {
		size += len(name) + 3
	}
	for _, f := range r.observed.BucketFates {
		size += len(f.Bucket) + len(f.Fate) + 2*len(f.Why) + 80
	}
	if v := r.observed.VolumeFate; v != nil {
		size += len(v.Volume) + len(v.Fate) + 2*len(v.Why)
	}
	return size
}

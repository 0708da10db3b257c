package view

import (
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// ReplicaState is one replica: a member with a uid, what is asked of it and what
// its syncer said. desired is nil when its record is gone.
type ReplicaState struct {
	// at is the member, and member its index in the federation's; -1 for one that
	// is being added or removed.
	At         record.Member
	Member     int
	Desired    *record.Desired
	DesiredRev int64
	Observed   *record.Observed
	Alive      bool
	// trouble is why nothing can be done on its cluster although that is alive.
	Trouble Trouble
	// stopped says that its cluster is paused.
	Stopped  bool
	LastSeen *time.Time
	// compared says that its cluster has compared everything in the present epoch.
	Compared bool
	// clusterUID is the registration of its cluster.
	ClusterUID string
	// abandoned says that its tombstone is left to its cluster alone.
	Abandoned bool
}

// Vote is the syncer's answer to exactly the desired record as it stands.
func (r ReplicaState) Vote() *record.Vote {
	if r.Desired == nil || r.Observed == nil || r.Observed.Vote == nil ||
		r.Observed.UID != r.Desired.UID || r.Observed.Vote.Revision != r.DesiredRev {
		return nil
	}
	return r.Observed.Vote
}

// Reported says whether the syncer reported phase for the desired record as it stands.
func (r ReplicaState) Reported(phase record.Phase) bool {
	return r.Desired != nil && r.Observed != nil && r.Observed.Phase == phase &&
		r.Observed.UID == r.Desired.UID && r.Observed.ObservedGeneration == r.Desired.Generation &&
		r.Observed.DesiredRevision == r.DesiredRev
}

// DefinitelyFailed says that the syncer has given up what is asked of the replica.
func (r ReplicaState) DefinitelyFailed() bool {
	return r.Reported(record.PhaseFailed) || r.Reported(record.PhaseHeld) || r.Reported(record.PhaseWedged)
}

// Acknowledged says that the syncer has carried out the tombstone.
func (r ReplicaState) Acknowledged() bool {
	return r.Desired != nil && r.Desired.Tombstone() && r.Reported(record.PhaseDeleted)
}

// Settled says that a tombstone need not be waited for: it is acknowledged, its
// deletion failed (it is tried again), or its cluster is away: without a syncer, out of
// its syncer's reach, or paused.
func (r ReplicaState) Settled() bool {
	return r.Acknowledged() || r.DefinitelyFailed() || r.WhyAway() != ""
}

// Failure is why the replica failed, with a reason where the syncer gave none.
func (r ReplicaState) Failure(fallback record.Reason) *record.Failure {
	f := &record.Failure{
		Reason: r.Observed.Reason, Operation: r.Observed.Operation,
		Status: r.Observed.Status, Message: r.Observed.Message,
	}
	if f.Reason == "" {
		f.Reason = fallback
	}
	if f.Operation == "" {
		f.Operation = "create"
	}
	return f
}

// Rollback is how far the rollback of the replica has come.
func (r ReplicaState) Rollback() *record.Rollback {
	switch {
	case r.Abandoned:
		return &record.Rollback{State: record.RollbackPending, Message: "the cluster was removed; its tombstone waits for it"}
	case r.Desired == nil:
		return &record.Rollback{State: record.RollbackDeleted}
	case r.Acknowledged() && r.Observed.Operation == "delete":
		return &record.Rollback{State: record.RollbackDeleted, Message: r.Observed.Message}
	case r.Acknowledged():
		return &record.Rollback{State: record.RollbackNotCreated, Message: "absence was read back"}
	case r.DefinitelyFailed():
		return &record.Rollback{State: record.RollbackFailed, Message: r.Observed.Message + "; it is tried again"}
	case !r.Alive:
		return &record.Rollback{State: record.RollbackPending, Message: "the tombstone waits for the cluster"}
	case r.WhyAway() != "":
		return &record.Rollback{State: record.RollbackPending, Message: "the tombstone waits for the cluster: " + r.WhyAway()}
	}
	return &record.Rollback{State: record.RollbackPending}
}

// DeletedSize is about how many bytes are remembered of a replica that is gone.
func (r ReplicaState) DeletedSize() int {
	size := 1 << 10
	for _, name := range r.Observed.BucketsMade {
		size += len(name) + 3
	}
	for _, f := range r.Observed.BucketFates {
		size += len(f.Bucket) + len(f.Fate) + 2*len(f.Why) + 80
	}
	if v := r.Observed.VolumeFate; v != nil {
		size += len(v.Volume) + len(v.Fate) + 2*len(v.Why)
	}
	return size
}

// Held is what the syncer has reported as held and what nobody has decided about
// since; nil for nothing.
func (r ReplicaState) Held() *record.Held {
	o := r.Observed
	if r.Desired == nil || o == nil || o.UID != r.Desired.UID || o.Phase != record.PhaseHeld || o.Held == nil {
		return nil
	}
	decided := r.Desired.Covers(o.Held.Epoch, o.Held.Generation)
	switch {
	case o.Held.Kind == record.HeldMissing:
		decided = r.Desired.Again || r.Desired.Tombstone()
	case o.Held.Generation == 0:
		decided = r.Desired.Epoch == o.Epoch
	}
	if decided {
		return nil
	}
	return o.Held
}

// HeldReplicas names those replicas of a federation that are held, for a change that would
// write over them or make them again.
func (v *View) HeldReplicas(f *record.Federation) []string {
	var out []string
	for _, r := range v.Situation(f).Replicas {
		if r.Held() != nil {
			out = append(out, r.At.ClusterID+"/"+r.At.ServiceName)
		}
	}
	return out
}

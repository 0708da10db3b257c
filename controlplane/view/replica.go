package view

import (
	"cmp"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// ReplicaState is one replica: a member with a uid, its desired record and the report of its
// syncer. Desired is nil when its record is gone.
type ReplicaState struct {
	// At is the member, and Member its index in the federation; -1 for one that is being added
	// or removed.
	At         record.Member
	Member     int
	Desired    *record.Desired
	DesiredRev int64
	Observed   *record.Observed
	Alive      bool
	// Trouble is why nothing can be done on its cluster although its syncer is connected.
	Trouble Trouble
	// Stopped says that nothing is written to its OSCAR: the cluster is paused, or has the OSCAR
	// of another one, SameOscarAs.
	Stopped     bool
	SameOscarAs string
	LastSeen    *time.Time
	// Compared says that its cluster has compared everything in the present epoch.
	Compared bool
	// ClusterUID is the registration of its cluster.
	ClusterUID string
	// RunStates says that its syncer stops and starts exposed services.
	RunStates bool
	// ReadsParts says that its syncer is connected and reads parts.
	ReadsParts bool
	// Abandoned says that its tombstone is left to its cluster alone.
	Abandoned bool
}

// Vote is the syncer's answer to exactly the desired record as it stands.
func (r ReplicaState) Vote() *record.Vote {
	if r.Desired == nil || r.Observed == nil || r.Observed.UID != r.Desired.UID {
		return nil
	}
	return r.Observed.VoteOn(r.DesiredRev)
}

// Reported says whether the syncer reported phase for the desired record as it stands.
func (r ReplicaState) Reported(phase record.Phase) bool {
	return r.Desired != nil && r.Observed != nil && r.Observed.Phase == phase &&
		r.Observed.UID == r.Desired.UID && r.Observed.ObservedGeneration == r.Desired.Generation &&
		r.Observed.DesiredRevision == r.DesiredRev
}

// DefinitelyFailed says that the syncer has given up on the desired record of the replica.
func (r ReplicaState) DefinitelyFailed() bool {
	return r.Reported(record.PhaseFailed) || r.Reported(record.PhaseHeld) || r.Reported(record.PhaseWedged)
}

// Acknowledged says that the syncer has carried out the tombstone.
func (r ReplicaState) Acknowledged() bool {
	return r.Desired != nil && r.Desired.Tombstone() && r.Reported(record.PhaseDeleted)
}

// Settled says that nothing waits for a tombstone any more: it is acknowledged, its deletion
// failed (the syncer tries again), or its cluster is away: without a syncer, out of its
// syncer's reach, or stopped.
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
		f.Operation = record.OperationCreate
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
	case r.Acknowledged() && r.Observed.Operation == record.OperationDelete:
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
	return &record.Rollback{State: record.RollbackPending, Message: r.Waits()}
}

// withWait adds to a message until when the syncer writes nothing.
func (r ReplicaState) withWait(message string) string {
	if waits := r.Waits(); message != "" && waits != "" {
		return message + "; " + waits
	}
	return cmp.Or(message, r.Waits())
}

// Waits says until when the syncer writes nothing for the replica; empty when it does.
func (r ReplicaState) Waits() string {
	o := r.Observed
	if !r.Alive || r.Desired == nil || o == nil || o.UID != r.Desired.UID || o.WaitsUntil == nil {
		return ""
	}
	return "what was sent to the cluster's OSCAR before, and not answered, may still take effect: it goes on after " + o.WaitsUntil.UTC().Format(time.RFC3339)
}

// DeletedSize estimates the bytes of the record that remains of a deleted replica.
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

// Held is the difference that the syncer holds and that has not been resolved since; nil for
// none.
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

// HeldReplicas names the held replicas of a federation: a change would write over them or make
// them again.
func (v *View) HeldReplicas(f *record.Federation) []string {
	var out []string
	for _, r := range v.Situation(f).Replicas {
		if r.Held() != nil {
			out = append(out, r.At.ClusterID+"/"+r.At.ServiceName)
		}
	}
	return out
}

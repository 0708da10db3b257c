package controlplane

import (
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// refusals is the cause of a replica that voted no.
func refusals(r replicaState) *record.Failure {
	if v := r.vote(); !r.reported(record.PhaseHeld) && (v == nil || v.Answer == record.VoteYes) {
		return nil
	}
	f := r.failure(record.ReasonInvalidService)
	f.Operation = "vote"
	return f
}

// noVote is the cause of a replica that did not vote in time: what its syncer told
// beside the open vote, or of its cluster.
func noVote(r replicaState) *record.Failure {
	switch {
	case r.vote() != nil || r.reported(record.PhaseHeld):
		return nil
	case r.reported(record.PhasePending) && r.observed.Reason != "":
		f := r.failure(record.ReasonNoVote)
		f.Operation = "vote"
		return f
	case r.trouble.reason != "":
		return &record.Failure{Reason: r.trouble.reason, Operation: "vote", Message: r.trouble.message}
	}
	msg := "its syncer is connected but did not vote before the deadline"
	if !r.alive {
		msg = "no syncer is connected"
		if r.lastSeen != nil {
			msg = "no syncer since " + r.lastSeen.UTC().Format(time.RFC3339)
		}
	}
	return &record.Failure{
		Reason: record.ReasonNoVote, Operation: "vote",
		Message: msg,
	}
}

func queueTooLong(r replicaState, limit time.Duration) *record.Failure {
	delay := time.Duration(r.vote().DelayS) * time.Second
	if delay <= limit {
		return nil
	}
	return &record.Failure{
		Reason: record.ReasonQueueTooLong, Operation: "vote",
		Message: fmt.Sprintf("its write queue is %s long, the limit is %s; try again later", delay, limit),
	}
}

// tooLate is the cause of a replica that was not ready at the apply deadline.
func tooLate(r replicaState) *record.Failure {
	switch {
	case r.reported(record.PhaseReady):
		return nil
	case !r.alive:
		f := &record.Failure{Reason: record.ReasonSessionLost, Operation: "create", Message: "its syncer is gone and has not reported an outcome"}
		if r.lastSeen != nil {
			f.Message = "no report since " + r.lastSeen.UTC().Format(time.RFC3339)
		}
		return f
	}
	if r.trouble.reason != "" {
		return &record.Failure{Reason: r.trouble.reason, Operation: "create", Message: r.trouble.message + "; no outcome was reported before the apply deadline"}
	}
	if r.reported(record.PhaseApplying) && r.observed.Operation != "" {
		return r.failure(record.ReasonUnknownOutcome)
	}
	return &record.Failure{
		Reason: record.ReasonUnknownOutcome, Operation: "create",
		Message: "no outcome was reported before the apply deadline",
	}
}

// abortCode is already_exists when everything that was refused is taken,
// unavailable when clusters were silent or busy, failed_precondition else.
func abortCode(members []record.Member) Code {
	taken, silent, other := 0, 0, 0
	for _, m := range members {
		if m.Cause == nil {
			continue
		}
		switch m.Cause.Reason {
		case record.ReasonNameTaken, record.ReasonForeignBucket:
			taken++
		case record.ReasonNoVote, record.ReasonQueueTooLong, record.ReasonOscarUnreachable, record.ReasonStorageUnreachable:
			silent++
		default:
			other++
		}
	}
	switch {
	case other > 0:
		return CodeFailedPrecondition
	case silent > 0:
		return CodeUnavailable
	case taken > 0:
		return CodeAlreadyExists
	}
	return CodeFailedPrecondition
}

// failureDetail is one sentence about the first cause.
func failureDetail(members []record.Member) string {
	for _, m := range members {
		if m.Cause == nil {
			continue
		}
		at := m.ClusterID + "/" + m.ServiceName + ": "
		if m.Cause.Status != 0 {
			return fmt.Sprintf("%s%s answered %d", at, m.Cause.Operation, m.Cause.Status)
		}
		return at + m.Cause.Message
	}
	return ""
}

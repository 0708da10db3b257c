package decide

import (
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// refusals is the cause of a replica that voted no.
func refusals(r view.ReplicaState) *record.Failure {
	if v := r.Vote(); !r.Reported(record.PhaseHeld) && (v == nil || v.Answer == record.VoteYes) {
		return nil
	}
	f := r.Failure(record.ReasonInvalidService)
	f.Operation = record.OperationVote
	return f
}

// noVote is the cause of a replica that did not vote in time: what its syncer reported beside
// the open vote, or about its cluster.
func noVote(r view.ReplicaState) *record.Failure {
	switch {
	case r.Vote() != nil || r.Reported(record.PhaseHeld):
		return nil
	case r.Reported(record.PhasePending) && r.Observed.Reason != "":
		f := r.Failure(record.ReasonNoVote)
		f.Operation = record.OperationVote
		return f
	case r.Trouble.Reason != "":
		return &record.Failure{Reason: r.Trouble.Reason, Operation: record.OperationVote, Message: r.Trouble.Message}
	}
	msg := "its syncer is connected but did not vote before the deadline"
	if !r.Alive {
		msg = "no syncer is connected"
		if r.LastSeen != nil {
			msg = "no syncer since " + r.LastSeen.UTC().Format(time.RFC3339)
		}
	}
	return &record.Failure{
		Reason: record.ReasonNoVote, Operation: record.OperationVote,
		Message: msg,
	}
}

func queueTooLong(r view.ReplicaState, limit time.Duration) *record.Failure {
	delay := time.Duration(r.Vote().DelayS) * time.Second
	if delay <= limit {
		return nil
	}
	return &record.Failure{
		Reason: record.ReasonQueueTooLong, Operation: record.OperationVote,
		Message: fmt.Sprintf("its write queue is %s long, the limit is %s; try again later", delay, limit),
	}
}

// tooLate is the cause of a replica that was not ready at the apply deadline.
func tooLate(r view.ReplicaState) *record.Failure {
	switch {
	case r.Reported(record.PhaseReady):
		return nil
	case !r.Alive:
		f := &record.Failure{Reason: record.ReasonSessionLost, Operation: record.OperationCreate, Message: "its syncer is gone and has not reported an outcome"}
		if r.LastSeen != nil {
			f.Message = "no report since " + r.LastSeen.UTC().Format(time.RFC3339)
		}
		return f
	}
	if r.Trouble.Reason != "" {
		return &record.Failure{Reason: r.Trouble.Reason, Operation: record.OperationCreate, Message: r.Trouble.Message + "; no outcome was reported before the apply deadline"}
	}
	if r.Reported(record.PhaseApplying) && r.Observed.Operation != "" {
		return r.Failure(record.ReasonUnknownOutcome)
	}
	return &record.Failure{
		Reason: record.ReasonUnknownOutcome, Operation: record.OperationCreate,
		Message: "no outcome was reported before the apply deadline",
	}
}

// abortCode is already_exists when everything that was refused is taken,
// unavailable when clusters were silent or busy, failed_precondition else.
func abortCode(members []record.Member) fault.Code {
	taken, silent, other := 0, 0, 0
	for _, m := range members {
		if m.Cause == nil {
			continue
		}
		switch m.Cause.Reason {
		case record.ReasonNameTaken, record.ReasonForeignBucket, record.ReasonBucketLeft:
			taken++
		case record.ReasonNoVote, record.ReasonQueueTooLong, record.ReasonOscarUnreachable, record.ReasonStorageUnreachable:
			silent++
		default:
			other++
		}
	}
	switch {
	case other > 0:
		return fault.CodeFailedPrecondition
	case silent > 0:
		return fault.CodeUnavailable
	case taken > 0:
		return fault.CodeAlreadyExists
	}
	return fault.CodeFailedPrecondition
}

// FailureDetail is one sentence about the first cause.
func FailureDetail(members []record.Member) string {
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

// transient says that a replica that was refused for this reason can be made later, without a
// change of the request.
func transient(r record.Reason) bool {
	switch r {
	case record.ReasonNoVote, record.ReasonOscarUnreachable, record.ReasonStorageUnreachable, record.ReasonCredentialRefused:
		return true
	}
	return false
}

// adviseBestEffort adds best effort to a cause as a way out, when it is one: it is not chosen
// yet, the obstacle is transient, and another cluster can create now.
func adviseBestEffort(s view.Situation, f *record.Failure, late bool) *record.Failure {
	if f == nil || !transient(f.Reason) || s.Fed.Deployment == oscar.DeploymentBestEffort {
		return f
	}
	for _, r := range s.Replicas {
		v := r.Vote()
		if v != nil && v.Answer == record.VoteYes || v == nil && !late && r.Alive && r.Trouble.Reason == "" && !r.Reported(record.PhasePending) {
			f.Message += "; deployment best-effort creates it on the others now and here later"
			break
		}
	}
	return f
}

// awayMessage tells that a cluster which is to be removed does not answer.
func awayMessage(s ClusterSituation, services int) string {
	why, way := "no syncer has ever connected", "start its syncer"
	switch {
	case s.trouble.Away:
		why, way = s.trouble.Message, "mend that"
	case s.reg.LastSeen != nil:
		why = "no syncer since " + s.reg.LastSeen.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("cluster %q is away (%s) and has %d federated services: %s, or use force: "+
		"their federations go on without them at once, and the orders to delete them wait for the cluster", s.reg.ClusterID, why, services, way)
}

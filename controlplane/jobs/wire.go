package jobs

import (
	"encoding/json"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/hint"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
)

// A job keeps types of its own: its states are compared in many places, and its view has both
// subjects, which only some callers are shown. The functions here are the one way to the wire.

// Wire is the job as a caller sees it: the subjects that sent and cancelled it are shown to the
// sender and to the owner.
func (j *Job) Wire(caller identity.Caller) v1.Job {
	out := v1.Job{
		ID: j.ID, Federation: j.Federation, GroupID: j.GroupID, Owner: j.Owner, ClusterID: j.ClusterID, ServiceName: j.Service,
		Offered: j.Offered, Size: j.Size, State: string(j.State), Reason: string(j.Reason), Message: j.Message, Pod: wirePod(j.Pod), Attempt: j.Attempt,
		Attempts: make([]v1.JobAttempt, len(j.Attempts)), Unreachable: j.Unreachable, Held: j.Held, Cancelled: j.Cancel != "",
		Revision: j.Revision, RequestID: j.RequestID, AcceptedAt: v1.Time{Time: j.AcceptedAt}, ChangedAt: v1.Time{Time: j.ChangedAt},
		NotBefore: v1.Moment(j.NotBefore), SubmittedAt: v1.Moment(j.SubmittedAt), StartedAt: v1.Moment(j.StartedAt), EndedAt: v1.Moment(j.EndedAt),
	}
	if caller.MayChange(j.Owner) || caller.Subject != "" && caller.Subject == j.By {
		out.By, out.CancelledBy = j.By, j.Cancel
	}
	out.Hint = hint.ForJob(j.ID, j.State, j.Reason)
	if p := j.Place; p != nil {
		out.Place = &v1.JobPlace{ClusterID: p.ClusterID, ServiceName: p.ServiceName, URL: p.URL, JobName: p.Name}
	}
	for i, a := range j.Attempts {
		out.Attempts[i] = v1.JobAttempt{
			Attempt: a.Attempt, Place: a.Place, State: string(a.State), Reason: string(a.Reason),
			Status: a.Status, Message: a.Message, Pod: wirePod(a.Pod), EndedAt: v1.Time{Time: a.EndedAt.Time},
		}
	}
	return out
}

// wirePod is nil for nil.
func wirePod(p *record.JobPod) *v1.JobPod {
	if p == nil {
		return nil
	}
	return &v1.JobPod{Reason: p.Reason, Message: p.Message, ExitCode: p.ExitCode}
}

// Wire is the choice with its input.
func (d *Explanation) Wire() (v1.JobDecision, error) {
	snapshot, err := json.Marshal(d.Snapshot)
	if err != nil {
		return v1.JobDecision{}, err
	}
	out := v1.JobDecision{
		Attempt: d.Attempt, At: v1.Time{Time: d.At}, Now: d.Now, Policy: d.Decision.Policy, Chosen: d.Decision.Chosen,
		Order: append([]string{}, d.Decision.Order...), Members: make([]v1.JobVerdict, len(d.Decision.Verdicts)), Snapshot: snapshot,
	}
	for i, v := range d.Decision.Verdicts {
		out.Members[i] = v1.JobVerdict{Place: v.Place, Why: string(v.Why), Message: v.Message, Score: v.Score}
	}
	return out, nil
}

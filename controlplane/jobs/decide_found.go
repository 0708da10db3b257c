package jobs

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
)

// foundAttempt is an attempt that a cluster has found among its Jobs after the store
// was restored, and that no assignment asks for.
type foundAttempt struct {
	cluster string
	attempt int
	report  record.JobReport
	rev     int64
	// fed is the federation with a replica of that name there, and member the replica;
	// nil when there is none.
	fed        *record.Federation
	member     record.Member
	clusterUID string
}

// foundDecision is what becomes of it.
type foundDecision struct {
	next record.Job
	// adopt writes an assignment for the attempt, and keeps the report; otherwise the
	// report is taken away.
	adopt bool
	// drop takes the attempt away that the store had for the present one.
	drop bool
}

// foundBeside is the note about an attempt that was found of a job which had gone on. There is one for each cluster: it may find
// any number, and a job keeps few attempts.
const foundBeside = "it was found after the store was restored, which had gone on without it"

// decideFound is pure: what a cluster has found is what the history that was lost had
// made of a job.
//
//	not known ─────────────────────────► a record for it, as it stands there
//	a later attempt than the store has ► that attempt
//	cancelled since, and it goes on ───► that attempt, which is to end
//	anything else ─────────────────────► the store knows better: a note
func decideFound(s situation, f foundAttempt) foundDecision {
	at := record.At(s.now)
	place := &record.Place{
		ClusterID: f.cluster, ServiceName: f.report.Service, UID: f.member.UID, ClusterUID: f.clusterUID,
		Name: record.JobName(f.report.Service, s.job.Job, f.attempt),
	}
	next := s.job
	known := next.State != ""
	switch {
	case !known:
		next = record.Job{
			V: record.Version, Job: s.job.Job, Cluster: f.cluster, Service: f.report.Service, Owner: identity.Admin,
			RequestID: s.job.Job, AcceptedAt: acceptedAt(s.job.Job, at),
		}
		if f.fed != nil {
			next.Federation, next.GroupID, next.Owner = f.fed.UID, f.fed.GroupID, f.fed.Owner
		}
	case s.cancelledSince(f):
	case next.State.Ended() && next.State != record.JobParked, next.Epoch == s.epoch, f.attempt < next.Attempt,
		f.attempt == next.Attempt && next.State != record.JobQueued:
		if !next.State.Ended() && !slices.ContainsFunc(next.Past, func(a record.Attempt) bool { return a.ClusterID == f.cluster && a.Message == foundBeside }) {
			next.Past = withAttempt(next.Past, record.Attempt{
				Attempt: f.attempt, ClusterID: f.cluster, Place: place.Where(), State: f.report.State, Reason: record.JobStoreRestored,
				Message: foundBeside, EndedAt: at,
			})
		}
		return foundDecision{next: next}
	}
	d := foundDecision{drop: next.State == record.JobAssigned || next.State == record.JobRunning}
	if d.drop {
		next = s.requeued(record.Attempt{State: next.State, Reason: record.JobStoreRestored, Message: "a later attempt was found after the store was restored"})
	}
	next.State, next.Attempt, next.Place, next.Epoch = record.JobAssigned, f.attempt, place, s.epoch
	next.Reserved, next.Posting, next.NotBefore, next.EndedAt = nil, nil, nil, nil
	next.Reason, next.Message, next.ChangedAt = record.JobStoreRestored, "it was found on its cluster after the store was restored", at
	if f.report.State == record.JobRunning {
		next.State = record.JobRunning
	}
	if f.report.StartedAt != nil {
		next.StartedAt = f.report.StartedAt
	}
	if f.report.State.Ended() {
		ended := s
		ended.job, ended.report = next, &f.report
		d.next = ended.reportedEnd().next
		return d
	}
	d.next, d.adopt = next, true
	return d
}

// cancelledSince says whether a job was cancelled by an order that cannot have reached what is found: in the
// history that was lost it had been claimed, where the store says that it waited.
func (s situation) cancelledSince(f foundAttempt) bool {
	j := &s.job
	return j.State == record.JobCancelled && j.Cancel != "" && j.Epoch != s.epoch && f.attempt >= j.Attempt && !f.report.State.Ended()
}

// acceptedAt is when a job was accepted, as its id says: now for one that says nothing, or the future.
func acceptedAt(job string, now record.Time) record.Time {
	id, err := uuid.Parse(job)
	if err != nil || id.Version() != 7 {
		return now
	}
	at := time.Unix(id.Time().UnixTime())
	if at.After(now.Time) {
		return now
	}
	return record.At(at)
}

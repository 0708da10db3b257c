package jobs

import (
	"errors"
	"fmt"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store/record"
)

// errThawed says that a job which stood frozen has started there. It is taken back to there first, and the
// end of that attempt is ordered then.
var errThawed = errors.New("it has started where it waited")

// cancel is pure: the step that ends a job by the order of a person.
func cancel(s situation, by string) (decision, error) {
	j := s.job
	switch {
	case j.State == record.JobCancelled:
		return decision{}, nil
	case j.State == record.JobParked:
		d := s.end(record.JobCancelled, "", "cancelled after it was parked")
		d.name, d.next.Cancel = "cancel", by
		return d, nil
	case j.State.Ended():
		return decision{}, hasEnded(j)
	case j.State == record.JobUncertain:
		return decision{}, &fault.Error{Code: fault.CodeFailedPrecondition, Message: "whether the endpoint took it is not known; find out, and say so: oscarfed job resolve " + j.Job}
	case j.Posting != nil:
		return decision{}, &fault.Error{Code: fault.CodeFailedPrecondition, Message: "it is being handed to an endpoint, which nobody can stop"}
	case j.State == record.JobQueued, (s.report == nil || !s.report.State.Bound()) && !j.Posted && j.State != record.JobRunning:
		if s.thawed {
			return decision{}, errThawed
		}
		d := s.end(record.JobCancelled, "", "")
		d.name, d.next.Cancel = "cancel", by
		d.fenced = j.State != record.JobQueued
		return d, nil
	case s.cancelSent || !s.assigned:
		return decision{}, nil
	}
	next := j
	next.Cancel, next.ChangedAt = by, record.At(s.now)
	return decision{name: "order_cancel", next: next, cancel: true}, nil
}

// replay is pure: a job that is parked or has failed is queued again, and one that is held
// since a restore is released.
func replay(s situation) (decision, error) {
	j := s.job
	released := j.State == record.JobQueued && j.Epoch != s.epoch
	failed := j.State == record.JobFailed
	switch {
	case failed && !j.Kept:
		return decision{}, &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf(
			"the event of job %s is not kept: those of failed jobs are up to %d bytes; send it again", j.Job, maxKeptEvent)}
	case !j.State.Ended() && !released:
		return decision{}, &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf("job %s has not ended; only one that is parked or has failed is replayed", j.Job)}
	case j.State.Ended() && j.State != record.JobParked && !failed:
		return decision{}, &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf("job %s is %s; only one that is parked or has failed is replayed", j.Job, j.State)}
	}
	if s.disbanded {
		return decision{}, &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf("the service of job %s is gone", j.Job)}
	}
	next := j
	if failed {
		next = s.failedAttempt(record.JobReport{Reason: j.Reason, Message: j.Message, Pod: j.Pod})
	}
	next.State, next.Tries, next.NotBefore, next.EndedAt, next.Cancel = record.JobQueued, 0, nil, nil, ""
	next.Reason, next.Message, next.ChangedAt, next.Epoch = "", "", record.At(s.now), s.epoch
	return decision{name: "replay", next: next}, nil
}

// resolve is pure: a person says what became of an attempt that is uncertain, or
// whose cluster is away.
func resolve(s situation, as record.JobState) (decision, error) {
	j := s.job
	if j.State.Ended() {
		return decision{}, hasEnded(j)
	}
	if j.State == record.JobUncertain { // at an endpoint
		if as == record.JobVanished {
			return s.resolved(record.JobVanished), nil
		}
		return s.resolved(record.JobSucceeded), nil
	}
	posted := s.report != nil && s.report.State.Posted() || s.forgotten()
	uncertain := s.report != nil && s.report.State == record.JobUncertain
	switch {
	case !uncertain && (!posted || s.session != 0):
		return decision{}, &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf(
			"job %s is not uncertain, and its cluster can be asked", j.Job)}
	case as == record.JobVanished:
		return s.resolved(record.JobVanished), nil
	case !uncertain || s.resolution == record.JobSubmitted || !s.assigned:
		return decision{}, nil // it is taken for that already
	}
	next := j
	next.ChangedAt = record.At(s.now)
	return decision{name: "resolve", next: next, resolve: as}, nil
}

// resolved is the end that a person has decided.
func (s situation) resolved(state record.JobState) decision {
	d := s.end(state, record.JobResolved, "a person decided so")
	d.name = "resolve"
	return d
}

func hasEnded(j record.Job) error {
	return &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf("job %s has ended: %s", j.Job, j.State)}
}

package jobs

import (
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// plan names the next step for one attempt of a job. It is pure.
//
//	(none) ──► claim ──► claimed ──► begin ──► submitting ──► post ──► submitted ──► running ──► an end
//	   │                    │                      │                       ▲                       ▲
//	   └─ refused ◄─────────┴── definite no ◄──────┤                       │ listed                │
//	                                               ▼                       │                       │
//	                    no answer: look, post again, and after a while uncertain ── not listed ──► vanished
//
// From begin on, OSCAR may have been asked. Whether it was is known to this process
// alone (memory); another one that finds submitting looks, and never posts.
func plan(s situation) decision {
	if s.memory.busy || s.assignment == nil || s.Restored {
		return decision{step: stepRest}
	}
	state := s.state()
	switch {
	case state.Ended() || state == record.JobRefused:
		return decision{step: stepRest}
	case !state.Posted():
		return planUnposted(s)
	case state == record.JobSubmitting:
		return planSubmitting(s)
	case state == record.JobUncertain:
		return planUncertain(s)
	}
	return planSubmitted(s)
}

// planUnposted: OSCAR was not asked in this attempt, for all that the store knows.
func planUnposted(s situation) decision {
	switch {
	case s.state() == "" && s.assignment.Posted:
		return planForgotten(s)
	case s.assignment.Epoch != s.Epoch:
		return planFormer(s)
	case s.state() == "" && (s.assignment.Cancel || s.replica == replicaGone):
		return planForgotten(s)
	case s.assignment.Cancel:
		return tell(record.JobCancelled, "", "it was cancelled before OSCAR was asked")
	case s.replica == replicaGone:
		return gone()
	case s.Stopped && s.state() == record.JobClaimed:
		return tell(record.JobRefused, record.JobWithdrawn, "the cluster takes no jobs now")
	case s.replica == replicaWaits && s.state() == record.JobClaimed:
		if wait := s.standsUntil().Sub(s.now); wait > 0 {
			return restFor(wait)
		}
		return tell(record.JobRefused, record.JobWithdrawn, "its service is not in place there")
	case s.Stopped || s.replica == replicaWaits:
		return decision{step: stepRest}
	case s.memory.unfit != nil:
		return tell(record.JobRefused, s.memory.unfit.reason, s.memory.unfit.message)
	case s.state() == "":
		return decision{step: stepClaim, state: record.JobClaimed}
	}
	return decision{step: stepBegin, state: record.JobSubmitting}
}

// planForgotten: OSCAR may have the Job, and nothing is reported of it. The assignment says so: the reports of a cluster
// that was revoked are forgotten, and an offered job that is given back has none. It is not posted, then: its Job may have
// run, and be deleted. Or the attempt is to end, which the control plane does by itself when it was never claimed.
func planForgotten(s situation) decision {
	switch {
	case s.assignment.Cancel && s.assignment.Posted:
		return s.foundOr(s.lateOr(s.sessionStart, tell(record.JobCancelled, "", "it was cancelled, and OSCAR does not list it")))
	case s.assignment.Cancel:
		return s.foundOr(tell(record.JobCancelled, "", "it was cancelled, and OSCAR does not list it"))
	case s.assignment.Posted:
		return s.foundOr(tell(record.JobUncertain, record.JobNoAnswer, "nothing is reported of it any more, and OSCAR does not list it"))
	}
	return s.foundOr(gone())
}

// foundOr looks for an attempt that may have been posted, of which the store does not know: it is reported as found, or
// unlisted is done.
func (s situation) foundOr(unlisted decision) decision {
	switch shown := s.listedSince(s.sessionStart); {
	case shown == nil:
		return lookNow()
	case shown.present:
		d := s.asListed(shown)
		d.found = true
		return d
	}
	return unlisted
}

func gone() decision {
	return tell(record.JobRefused, record.JobServiceGone, "the service that it was assigned to is not on the cluster any more")
}

// planFormer: the assignment is of an epoch that is over. The store may have forgotten
// that this was posted, and what became of the job elsewhere: it is not posted now. One
// that was not claimed the control plane takes back.
func planFormer(s situation) decision {
	if s.state() == record.JobClaimed {
		return s.foundOr(tell(record.JobRefused, record.JobStoreRestored, "the store was restored since it was claimed, and OSCAR does not list it"))
	}
	return s.foundOr(decision{step: stepRest})
}

// planSubmitting: OSCAR may have been asked, and has not said yes.
func planSubmitting(s situation) decision {
	m := s.memory
	if !s.mine() {
		switch shown := s.listedSince(s.sessionStart); {
		case shown == nil:
			return lookNow()
		case shown.present:
			return s.asListed(shown)
		}
		return tell(record.JobUncertain, record.JobNoAnswer, "the syncer ended while OSCAR was asked, and the Job is not listed")
	}
	shown := s.listedSince(m.lastPost)
	switch {
	case m.outcome == postTaken:
		return tell(record.JobSubmitted, "", "")
	case m.outcome == postOther:
		return tell(record.JobRefused, record.JobOtherEvent, "OSCAR has a Job of this name with another event")
	case m.posts == 0: // begun, and nothing was sent
		return s.unsent("")
	case !m.doubt && m.outcome == postNo:
		return s.no()
	case !m.doubt && m.outcome == postUnsent:
		return s.unsent("the cluster's OSCAR does not answer")
	case shown != nil && shown.present:
		return s.asListed(shown)
	case m.seen: // and somebody has deleted it since
		return tell(record.JobSubmitted, "", "")
	case !m.doubt && m.outcome == postFailed:
		// OSCAR says that it failed. What it asked Kubernetes for may still come to be.
		if since := m.lastPost.Add(s.grace); shown == nil || shown.started.Before(since) {
			return lookSince(since, s.now)
		}
		return s.no()
	}
	uncertain := tell(record.JobUncertain, record.JobNoAnswer, fmt.Sprintf("OSCAR was asked %d times and has not said whether it made the Job; it is not listed", m.posts))
	switch {
	case s.assignment.Cancel, s.replica == replicaGone, m.unfit != nil, s.now.Sub(m.firstPost) >= s.resend:
		return uncertain
	case shown == nil:
		return lookNow()
	case s.Stopped || s.replica == replicaWaits:
		return restFor(m.firstPost.Add(s.resend).Sub(s.now))
	}
	return s.again()
}

// unsent: nothing of this attempt can have reached OSCAR.
func (s situation) unsent(why string) decision {
	switch {
	case s.assignment.Cancel:
		return tell(record.JobCancelled, "", "it was cancelled before OSCAR was asked")
	case s.replica == replicaGone:
		return gone()
	case s.memory.unfit != nil:
		return tell(record.JobRefused, s.memory.unfit.reason, s.memory.unfit.message)
	case s.Stopped:
		return tell(record.JobRefused, record.JobWithdrawn, "the cluster takes no jobs now")
	case s.memory.posts > 0 && s.now.Sub(s.memory.firstPost) >= s.resend:
		return tell(record.JobRefused, record.JobNoAnswer, why)
	case s.memory.posts == 0 && !s.now.Before(s.standsUntil()):
		return tell(record.JobRefused, record.JobWithdrawn, "nothing could be sent to the cluster's OSCAR")
	case s.replica == replicaWaits:
		return restFor(s.resend)
	}
	return s.again()
}

// standsUntil is how long an attempt that OSCAR was not asked for may stand still, before another member gets it.
func (s situation) standsUntil() time.Time {
	since := s.sessionStart
	if at := s.report.LastTransitionTime.Time; at.After(since) {
		since = at
	}
	return since.Add(s.resend)
}

// again posts once more, after a pause that doubles.
func (s situation) again() decision {
	m := s.memory
	if m.posts == 0 {
		return decision{step: stepPost}
	}
	if wait := m.lastPost.Add(s.pauseAfter(m.posts)).Sub(s.now); wait > 0 {
		return restFor(wait)
	}
	return decision{step: stepPost}
}

// deleteBy deletes the Job, which is listed, by a step, and once more after a pause that doubles.
func (s situation) deleteBy(next step, shown *listed) decision {
	m := s.memory
	switch {
	case m.deletes == 0:
		return decision{step: next}
	case shown.started.Before(m.lastDelete):
		return lookNow()
	}
	if wait := m.lastDelete.Add(s.pauseAfter(m.deletes)).Sub(s.now); wait > 0 {
		return restFor(wait)
	}
	return decision{step: next}
}

// pauseAfter is how long the next POST or DELETE waits after so many.
func (s situation) pauseAfter(tries int) time.Duration {
	return min(s.retry<<min(tries-1, 10), maxPostPause)
}

// no: OSCAR has refused it.
func (s situation) no() decision {
	d := tell(record.JobRefused, record.JobOscarRefused, s.memory.message)
	d.status = s.memory.status
	return d
}

// planUncertain: a list ends the doubt, or a person.
func planUncertain(s situation) decision {
	switch s.assignment.Resolved {
	case record.JobSubmitted, record.JobVanished:
		return tell(s.assignment.Resolved, record.JobResolved, "a person has decided so")
	}
	asked := s.sessionStart // by a former process: not later
	if s.mine() && s.memory.lastPost.After(asked) {
		asked = s.memory.lastPost
	}
	if shown := s.listedSince(asked); shown != nil && shown.present {
		return s.asListed(shown)
	}
	return s.lateOr(asked, tell(record.JobVanished, record.JobNoAnswer, "OSCAR has never said that it made the Job, and does not list it; it may have run if somebody has deleted it"))
}

// lateOr looks for a Job that is not listed, until a POST of a time, or before it, can have no effect any more: then unlisted
// is done.
func (s situation) lateOr(asked time.Time, unlisted decision) decision {
	switch shown, late := s.listedSince(asked), asked.Add(s.late); {
	case shown == nil:
		return lookNow()
	case shown.started.Before(late):
		return lookSince(slices.MinFunc([]time.Time{late, shown.started.Add(s.pause)}, time.Time.Compare), s.now)
	}
	return unlisted
}

// planSubmitted: OSCAR has made the Job. How it goes is seen in lists, which come by
// themselves.
func planSubmitted(s situation) decision {
	m, shown := s.memory, s.memory.listed
	if shown == nil {
		return decision{step: stepRest}
	}
	if shown.present {
		if d := s.asListed(shown); d.step != stepRest && (d.state.Ended() || !s.assignment.Cancel) {
			return s.ofInputs(d)
		}
		switch {
		case s.Stopped:
			return decision{step: stepRest}
		case !s.assignment.Cancel:
			return s.cannotStart(shown)
		}
		return s.deleteBy(stepDelete, shown)
	}
	if s.report.Reason == record.JobCannotStart && !s.assignment.Cancel && !shown.started.Before(m.lastDelete) {
		// It was seen to be there, and that it never runs.
		d := tell(record.JobRefused, record.JobCannotStart, s.report.Message)
		d.pod = s.report.Pod
		return d
	}
	if first := m.lastWrite().Add(s.grace); shown.started.Before(first) {
		return lookSince(first, s.now)
	}
	switch {
	case s.removalCancels:
		return tell(record.JobCancelled, "", "its service was deleted with its jobs, as ordered")
	case s.assignment.Cancel:
		return tell(record.JobCancelled, "", "")
	case m.missing.IsZero() || !shown.started.After(m.missing):
		return lookSince(shown.started.Add(s.grace), s.now)
	}
	return tell(record.JobVanished, "", "OSCAR does not list the Job any more; somebody may have deleted it, whether it had ended is not known")
}

// asListed reports what a list shows, if it is news.
func (s situation) asListed(shown *listed) decision {
	d := tell(listedState(shown.job.Status), "", "")
	if d.state == "" {
		d.state = record.JobSubmitted
	}
	if d.state == record.JobSubmitted && s.state() == record.JobRunning {
		d.state = record.JobRunning // its pod is gone or waits again, or its node does not answer
	}
	d.startedAt, d.endedAt = shown.job.Started, shown.job.Finished
	told := s.tellPod(shown, &d)
	if s.state() == d.state && !told {
		return decision{step: stepRest}
	}
	return d
}

// listedState translates OSCAR's word; empty for one that says nothing.
func listedState(status string) record.JobState {
	switch status {
	case "Pending", "Suspended":
		return record.JobSubmitted
	case "Running":
		return record.JobRunning
	case "Succeeded":
		return record.JobSucceeded
	case "Failed":
		return record.JobFailed
	}
	return ""
}

func tell(state record.JobState, reason record.JobReason, message string) decision {
	return decision{step: stepReport, state: state, reason: reason, message: message}
}

func restFor(d time.Duration) decision {
	return decision{step: stepRest, after: max(d, time.Millisecond)}
}

func lookNow() decision { return decision{step: stepLook} }

// lookSince wants a list that is started at a time or later.
func lookSince(since, now time.Time) decision {
	if wait := since.Sub(now); wait > 0 {
		return restFor(wait)
	}
	return lookNow()
}

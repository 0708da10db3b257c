package jobs

import (
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// maxTries is how many attempts of a job may be refused before it is parked.
	maxTries = 5
	// firstPause is how long a job rests after its first refusal, doubled with each.
	firstPause = 500 * time.Millisecond
	// keepAttempts bounds Job.Past.
	keepAttempts = 16
	// maxMessage bounds what of a report's message is kept with the job, in bytes.
	maxMessage = 500
	// maxPodReason bounds Kubernetes' reason, in bytes.
	maxPodReason = 100
	// maxKeptEvent bounds the events of failed jobs that are kept with them, in bytes: those of
	// buckets have about 1 KiB.
	maxKeptEvent = 16 << 10
)

// situation is everything that a decision about one job is made from, at one
// revision.
type situation struct {
	job    record.Job
	report *record.JobReport
	// assigned says that an assignment of the present attempt stands, cancelSent that it
	// orders its end, postedSent that it says that OSCAR may have been asked, resolution what a
	// person has decided of it, and epochOf in which epoch it was written.
	assigned   bool
	cancelSent bool
	postedSent bool
	resolution record.JobState
	epochOf    string
	// registered says that the cluster is the one that the job was assigned to, stopped
	// that it is to do nothing new, and listed that it has told of all its Jobs in
	// the present epoch.
	registered, stopped, listed bool
	// revoked says that what the cluster has reported will be forgotten.
	revoked bool
	// session is the create revision of its session, 0 for none; lost says that there
	// was none for as long as it takes.
	session int64
	lost    bool
	// gone says that the replica is not there any more, or a tombstone; cancels that
	// its tombstone orders the end of jobs; absent that its syncer claims nothing for it now.
	gone, cancels, absent bool
	// disbanded says that the federation is gone, or goes.
	disbanded bool
	// thawed says that what it stands frozen as is not frozen any more.
	thawed bool
	epoch  string
	now    time.Time
}

// decision is the next step of a job: what its record is then, and what becomes
// of its attempt. The zero value is no step.
type decision struct {
	name string
	next record.Job
	// drop takes assignment, event and report of the present attempt away.
	drop bool
	// dropEvent takes the event of the job away.
	dropEvent bool
	// fenced demands that the session of the cluster is still the same, or none.
	fenced bool
	// cancel orders the end of the attempt, posted tells its syncer that OSCAR may have been
	// asked for it, and resolve what a person has decided of it.
	cancel  bool
	posted  bool
	resolve record.JobState
}

// decide is pure: the next step of one job, from what stands and what its syncer
// says. Assigning is not among them: see the dispatcher.
//
//	an end was reported ────────────────► that end
//	failed for inputs it could not read ► queued, after a pause; the 5th time parked
//	refused, 5th time ──────────────────► parked      before, or frozen ──► queued, after a pause
//	running ────────────────────────────► running, and nothing is promised to it any more
//	unclaimed, and the place is no good ► queued
//	claimed, and its session is gone ───► queued
//	posted, and the cluster was removed ► vanished
//	queued, and the federation goes ────► cancelled
func decide(s situation) decision {
	switch s.job.State {
	case record.JobQueued:
		if s.disbanded {
			return s.end(record.JobCancelled, record.JobFederationGone, "its federation was deleted")
		}
		return decision{}
	case record.JobAssigned, record.JobRunning:
		if s.job.Place == nil || s.job.Place.URL != "" {
			return decision{}
		}
	default:
		return decision{}
	}
	var state record.JobState
	if s.report != nil {
		state = s.report.State
	}
	switch {
	case state == record.JobFailed && s.report.Reason == record.JobInputsUnreadable && s.job.Cancel == "" && !s.disbanded:
		return s.withoutInputs()
	case state == record.JobSucceeded, state == record.JobFailed, state == record.JobCancelled, state == record.JobVanished:
		return s.reportedEnd()
	case state == record.JobRefused:
		return s.refused()
	case !s.registered && (state.Posted() || s.forgotten() || !s.assigned):
		return s.end(record.JobVanished, record.JobClusterLost, "its cluster was removed while it may have run there")
	case state.Posted():
		return s.onItsWay(state)
	}
	return s.unposted(state)
}

// onItsWay is the step when OSCAR may have it. The job stays with that cluster, whatever happens
// there.
func (s situation) onItsWay(state record.JobState) decision {
	next := s.job
	switch {
	case s.cancels && !s.cancelSent && s.assigned:
		next.Cancel, next.ChangedAt = orderByReplica, record.At(s.now)
		return decision{name: "order_cancel", next: next, cancel: true}
	case s.revoked && s.assigned && !s.postedSent:
		next.Posted = true
		return decision{name: "note_posted", next: next, posted: true}
	case state == record.JobRunning && s.job.State != record.JobRunning:
		next.State, next.Reserved, next.ChangedAt = record.JobRunning, nil, record.At(s.now)
		next.Reason, next.Message = "", ""
		if s.report.StartedAt != nil {
			next.StartedAt = s.report.StartedAt
		}
		return decision{name: "running", next: next}
	}
	return decision{}
}

// orderByReplica is the Job.Cancel of a job whose replica was removed with jobs=cancel.
const orderByReplica = "the removal of its service"

// forgotten says, of an attempt without a report that OSCAR was asked, that it may have been: the reports
// of a cluster that was revoked are forgotten.
func (s situation) forgotten() bool { return s.job.Posted || s.job.State == record.JobRunning }

// unposted is the step when OSCAR was not asked yet. The attempt is withdrawn when it will not go
// on where it is, in a transaction that fails if it goes on at that moment.
func (s situation) unposted(state record.JobState) decision {
	claimed := state == record.JobClaimed
	// In an older epoch more may have happened than the store knows.
	known := s.epochOf == s.epoch || s.listed
	switch {
	case s.registered && s.forgotten():
		return decision{} // its syncer makes another report
	case !known && s.registered:
		return decision{}
	case claimed && s.session != 0 && s.report.Session == s.session:
		return decision{} // its syncer is at work
	case !s.registered:
		return s.withdraw(record.JobClusterLost, "its cluster was removed")
	case s.thawed:
		return s.withdraw(record.JobWithdrawn, "it has started where it waited")
	case s.disbanded:
		return s.withdraw(record.JobFederationGone, "its federation was deleted")
	case s.epochOf != s.epoch:
		return s.withdraw(record.JobStoreRestored, "the store was restored, and its cluster knows nothing of the attempt")
	case s.gone:
		return s.withdraw(record.JobServiceGone, "its service is not there any more")
	case s.stopped:
		return s.withdraw(record.JobWithdrawn, "its cluster takes no jobs now")
	case s.absent:
		return s.withdraw(record.JobWithdrawn, "its service is not in place there")
	case s.session != 0 || !s.lost:
		return decision{} // a new syncer takes it up
	}
	return s.withdraw(record.JobClusterLost, "its cluster was lost before it had begun")
}

// withdraw takes an attempt back, fenced against the syncer that may just claim it.
func (s situation) withdraw(reason record.JobReason, message string) decision {
	if s.disbanded || s.job.Cancel != "" {
		d := s.end(record.JobCancelled, "", "")
		if s.disbanded {
			d.next.Reason, d.next.Message = record.JobFederationGone, "its federation was deleted"
		}
		d.fenced = true
		return d
	}
	next := s.requeued(record.Attempt{State: record.JobAssigned, Reason: reason, Message: message})
	if s.report != nil {
		next.Past[len(next.Past)-1].State = s.report.State
	}
	next.Reason, next.Message = reason, message
	if s.epochOf != s.epoch {
		next.Epoch = s.epochOf // it is held like what was queued before the restore
	}
	return decision{name: "withdraw", next: next, drop: true, fenced: true}
}

// refused is the step when OSCAR certainly has not created it.
func (s situation) refused() decision {
	r := s.report
	if s.job.Cancel != "" || s.disbanded {
		d := s.end(record.JobCancelled, "", "")
		if s.job.Cancel == "" {
			d.next.Reason, d.next.Message = record.JobFederationGone, "its federation was deleted"
		}
		return d
	}
	next := s.requeued(record.Attempt{
		State: record.JobRefused, Reason: r.Reason, Status: r.Status, Message: view.Shorten(r.Message, maxMessage), Pod: podOf(r),
	})
	next.Tries++
	next.Reason, next.Message = r.Reason, view.Shorten(r.Message, maxMessage)
	return retry(next, s.now)
}

// withoutInputs is the step when the inputs could not be read: its syncer is certain that nothing of
// the service has run. The job waits until a member can read them.
func (s situation) withoutInputs() decision {
	next := s.failedAttempt(*s.report)
	next.Tries++
	return retry(next, s.now)
}

// failedAttempt is the job without its attempt that has failed.
func (s situation) failedAttempt(r record.JobReport) record.Job {
	next := s.requeued(record.Attempt{State: record.JobFailed, Reason: r.Reason, Message: view.Shorten(r.Message, maxMessage), Pod: podOf(&r)})
	next.StartedAt, next.EndedAt, next.Kept = nil, nil, false
	next.Reason, next.Message = r.Reason, view.Shorten(r.Message, maxMessage)
	return next
}

// givenUp says that no member is asked for a job any more.
func givenUp(j *record.Job) bool { return j.Tries >= maxTries }

// retry queues a job again that was refused, or parks it. One that is frozen goes on where it is: see
// decideOffer.
func retry(next record.Job, now time.Time) decision {
	if givenUp(&next) && next.Frozen == nil {
		at := record.At(now)
		next.State, next.EndedAt = record.JobParked, &at
		next.Reason = record.JobTooManyAttempts
		next.Message = "it was refused " + strconv.Itoa(next.Tries) + " times; the attempts say why. Replay it when that is mended"
		return decision{name: "park", next: next, drop: true}
	}
	at := record.At(now.Add(pauseBefore(next.Job, next.Tries)))
	next.NotBefore = &at
	return decision{name: "requeue", next: next, drop: true}
}

// pauseBefore is how long a job rests after it was refused so many times: doubled
// each time, spread by a quarter, for each job its own.
func pauseBefore(job string, tries int) time.Duration {
	d := firstPause << (min(tries, maxTries) - 1)
	h := fnv.New32a()
	_, _ = h.Write([]byte(job + "." + strconv.Itoa(tries))) // it never fails
	return d + d/4*time.Duration(h.Sum32()%1024)/1024
}

// touch sets when a job was changed last. The length of a pause is counted from there (see rests), so a pause that goes on
// begins anew: clocks of two instances may be hours apart.
func touch(j *record.Job, at record.Time) {
	if j.NotBefore != nil {
		until := record.At(at.Add(j.NotBefore.Sub(j.ChangedAt.Time)))
		j.NotBefore = &until
	}
	j.ChangedAt = at
}

// requeued is the job without its present attempt, which is remembered.
func (s situation) requeued(a record.Attempt) record.Job {
	next := s.job
	a.Attempt, a.EndedAt = next.Attempt, record.At(s.now)
	if next.Place != nil {
		a.ClusterID, a.Place = next.Place.ClusterID, next.Place.Where()
	}
	next.Past = withAttempt(next.Past, a)
	next.State, next.Reserved, next.Posting, next.NotBefore, next.Posted, next.Pod = record.JobQueued, nil, nil, nil, false, nil
	next.ChangedAt = record.At(s.now)
	return next
}

// withAttempt is a list of past attempts with one more, and without the oldest of too many.
func withAttempt(past []record.Attempt, a record.Attempt) []record.Attempt {
	out := append(slices.Clone(past), a)
	return out[max(0, len(out)-keepAttempts):]
}

// reportedEnd is the end that the syncer has seen.
func (s situation) reportedEnd() decision {
	r := s.report
	d := s.end(r.State, r.Reason, view.Shorten(r.Message, maxMessage))
	d.next.Pod = podOf(r)
	// The event of one that was found may be lost: there was none, or the job had been cancelled.
	if r.State == record.JobFailed && s.job.Size <= maxKeptEvent && !s.disbanded && !s.job.OfFound() && s.job.Cancel == "" {
		d.next.Kept, d.dropEvent = true, false
	}
	if r.StartedAt != nil {
		d.next.StartedAt = r.StartedAt
	}
	if r.EndedAt != nil {
		d.next.EndedAt = r.EndedAt
	}
	return d
}

// eventLost ends a job whose event cannot be read.
func (s situation) eventLost() decision {
	return s.end(record.JobFailed, record.JobEventLost, "its event cannot be read any more")
}

// podOf is what a report says of the pod, as much as is kept.
func podOf(r *record.JobReport) *record.JobPod {
	if r.Pod == nil {
		return nil
	}
	return &record.JobPod{Reason: view.Shorten(r.Pod.Reason, maxPodReason), Message: view.Shorten(r.Pod.Message, maxMessage), ExitCode: r.Pod.ExitCode}
}

// end is the end of the job: nothing is left but its record and its decisions.
func (s situation) end(state record.JobState, reason record.JobReason, message string) decision {
	next, at := s.job, record.At(s.now)
	next.State, next.Reason, next.Message = state, reason, message
	next.Reserved, next.Posting, next.NotBefore = nil, nil, nil
	next.ChangedAt, next.EndedAt = at, &at
	return decision{name: "end", next: next, drop: true, dropEvent: true}
}

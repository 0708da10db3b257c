package jobs

import (
	"errors"
	"time"

	"github.com/oscarfed/oscarfed/internal/share"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// attempt is one attempt of a job.
type attempt struct {
	key     string
	job     string
	number  int
	service string
	// tenant has its fair share of the slots.
	tenant share.Tenant
	// assignment is as of revision; nil when it is gone.
	assignment *record.Assignment
	revision   int64
	report     *record.JobReport
	memory     memory
	// queued says that it is in claimable or ready, and slot that it holds a slot.
	queued, slot bool
	// opened is what is to be posted, once submitting is reported.
	opened *openedJob
	// former is when the store was restored under it; zero for never. What this process
	// has done for it before that is as if another one had. stale says that its report
	// is to be read anew.
	former time.Time
	stale  bool
	// looking says that it waits for a list that was started since.
	looking time.Time
}

// serviceJobs is what is known of the Jobs of one service.
type serviceJobs struct {
	attempts map[string]*attempt
	// next is when it is listed again by itself, in growing pauses while nothing
	// changes; soon that it is listed as soon as that may be.
	next  time.Time
	pause time.Duration
	soon  bool
	// earliest is when that is.
	earliest time.Time
	// cancelled are lives of the service that were removed with their jobs.
	cancelled map[string]bool
}

// open says whether OSCAR may have the Job, and has more to say of it.
func (a *attempt) open() bool {
	return a.report != nil && a.report.State.Posted() && !a.report.State.Ended()
}

// refresh brings an attempt up to the mirror, and drops it when no assignment asks for it
// any more. It needs mu.
func (j *Jobs) refresh(view *store.MirrorView, key string) *attempt {
	ref := record.ParseKey(record.AssignmentsPrefix(j.session.ID) + key)
	number := ref.AttemptOf()
	if number == 0 {
		return nil
	}
	a := j.attempts[key]
	kv, ok := view.KV(record.AssignmentKey(j.session.ID, ref.Name, number))
	if !ok {
		if a != nil {
			a.assignment = nil
			j.forget(a)
		}
		return nil
	}
	if a != nil {
		j.reread(view, a)
		if a.revision == kv.ModRevision && a.assignment != nil {
			return a
		}
	}
	assignment, err := store.Decode[record.Assignment](kv)
	if err == nil && (assignment.Job != ref.Name || assignment.Attempt != number || assignment.Service == "") {
		err = &store.CorruptError{Key: kv.Key, Err: errors.New("it is not what its key says")}
	}
	if err != nil {
		j.session.Log.Error("assignment cannot be read; the job is left alone", "error", err)
		return nil
	}
	if a == nil {
		// One that a restore brought back, or this session has never met, counts as former:
		// its report may name our session, and nothing is remembered of its POST.
		a = &attempt{key: key, job: ref.Name, number: number, service: assignment.Service, report: j.reportIn(view, ref.Name, number), former: j.epoch.renewed}
		j.attempts[key] = a
		service := j.serviceOf(a.service)
		service.attempts[key] = a
		a.tenant.Federation = assignment.Federation
		if desired := j.replicaIn(view, a.service).desired; desired != nil {
			a.tenant.Account = desired.Owner
		}
		j.countClaimed(a, 1)
		if a.open() {
			j.watch(a.service)
		}
	}
	a.assignment, a.revision = assignment, kv.ModRevision
	return a
}

// reread takes over the report of a restored store. It needs mu.
func (j *Jobs) reread(view *store.MirrorView, a *attempt) {
	if !a.stale || a.memory.busy {
		return
	}
	a.stale = false
	j.countClaimed(a, -1)
	a.report, a.memory = j.reportIn(view, a.job, a.number), memory{}
	j.giveSlot(a)
	j.countClaimed(a, 1)
	if a.open() {
		j.watch(a.service)
	}
}

// reportIn is our last report about an attempt, or nil. One that cannot be read says
// that OSCAR may have been asked: it is taken for one of a process that died then.
func (j *Jobs) reportIn(view *store.MirrorView, job string, number int) *record.JobReport {
	kv, ok := view.KV(record.JobReportKey(j.session.ID, job, number))
	if !ok {
		return nil
	}
	r, err := store.Decode[record.JobReport](kv)
	if err != nil {
		j.session.Log.Error("own report of a job cannot be read; OSCAR is asked what it knows", "error", err)
		return &record.JobReport{V: record.Version, State: record.JobSubmitting}
	}
	return r
}

func (j *Jobs) serviceOf(name string) *serviceJobs {
	s := j.services[name]
	if s == nil {
		s = &serviceJobs{attempts: map[string]*attempt{}, cancelled: map[string]bool{}}
		j.services[name] = s
	}
	return s
}

// forget drops an attempt that no assignment asks for, unless a call for it is under way. It
// needs mu.
func (j *Jobs) forget(a *attempt) {
	if a.memory.busy {
		return
	}
	j.deps.Process.told(a.key)
	j.giveSlot(a)
	j.countClaimed(a, -1)
	delete(j.attempts, a.key)
	if s := j.services[a.service]; s != nil {
		delete(s.attempts, a.key)
		if len(s.attempts) == 0 {
			delete(j.services, a.service)
		}
	}
}

// situationOf of an attempt. It needs mu.
func (j *Jobs) situationOf(s *clusterView, a *attempt) situation {
	desired := s.of(a.service)
	service := j.serviceOf(a.service)
	if w := desired.desired; w != nil && w.Tombstone() && w.Jobs == record.JobsCancel {
		service.cancelled[w.UID] = true
	}
	session, since := j.session.Lease.CreateRevision(), j.session.Started
	if !a.former.IsZero() {
		since = a.former
		if a.report != nil && a.report.State.Posted() {
			session = 0 // what was posted then is not known to this memory
		}
	}
	ours := a.former.IsZero() && (a.memory.posts > 0 || j.deps.Process.unsent(a.key, a.report, s.Epoch))
	return situation{
		Standing: s.Standing, now: s.now, assignment: a.assignment, report: a.report,
		session: session, sessionStart: since, ours: ours,
		replica: desired.state(a.assignment.UID), removalCancels: service.cancelled[a.assignment.UID],
		memory: a.memory,
		retry:  j.cfg.RetryPause, grace: j.cfg.Grace, resend: j.cfg.Resend, late: j.cfg.LateWindow, pause: j.cfg.Poll,
		start: j.cfg.Start, minio: j.deps.Origins.MinIO(a.service),
	}
}

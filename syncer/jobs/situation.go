package jobs

import (
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/originstorage"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// situation is everything that a decision about an attempt is made from.
type situation struct {
	session.Standing
	now time.Time
	// assignment asks for the attempt; nil when it does not any more.
	assignment *record.Assignment
	// report is our last one, or nil.
	report *record.JobReport
	// session is the present one, and sessionStart when it began: no other process has asked
	// OSCAR since.
	session      int64
	sessionStart time.Time
	// ours says that a former session of this process has begun the attempt, and only this one has asked OSCAR,
	// if any.
	ours    bool
	replica replicaState
	// removalCancels says that the service's removal ends its jobs, by order.
	removalCancels bool
	memory         memory

	// retry is the first pause between two POSTs or DELETEs, grace how long after a
	// write to OSCAR its lists are not believed to lack a Job, resend how long after
	// the first POST others are sent, late how long an unanswered one may take effect,
	// and pause what lies between two lists at least.
	retry, grace, resend, late, pause time.Duration
	// start is how long a pod may be stuck before it starts; 0 or less for ever.
	start time.Duration
	// minio is what was found of that of its origin.
	minio originstorage.MinIO
}

// replicaState is how the replica that an attempt was assigned to stands here.
type replicaState int

const (
	// replicaWaits: it is ours, or will be, and cannot take jobs now.
	replicaWaits replicaState = iota
	// replicaReady: it stands and is ours.
	replicaReady
	// replicaGone: it is not desired here any more.
	replicaGone
)

// memory is what this process, in this session, knows of an attempt.
type memory struct {
	// busy says that a call is under way.
	busy bool
	// posts were sent, the first one at firstPost; the last one ended at lastPost.
	posts               int
	firstPost, lastPost time.Time
	// outcome is that of the last POST, with what OSCAR said.
	outcome postOutcome
	status  int
	message string
	// doubt says that one of them may have been taken without an answer.
	doubt bool
	// unfit says why the attempt cannot be made; nil when it can, for all that is known.
	unfit *unfitError
	// unprepared is since when what is to be posted could not be read; zero when it could.
	unprepared time.Time
	// deletes were sent; the last one ended at lastDelete.
	deletes    int
	lastDelete time.Time
	// listed is what the newest list shows. missing is when the first of the lists
	// that lack the Job, without a break, was started.
	listed  *listed
	missing time.Time
	// seen says that a list has shown the Job, be it while a POST was under way.
	seen bool
	// stuck is when the first of the lists that show its pod stuck, without a break, was
	// started. It was tried to hold that pod so often, the last time at lastHold.
	stuck    time.Time
	holds    int
	lastHold time.Time
	// fromOrigin says that it reads an object of the origin's MinIO before anything else;
	// unstarted is when it had certainly not started, and failed when the first list was
	// started that shows it so.
	fromOrigin        bool
	unstarted, failed time.Time
}

// lastWrite is when the last POST or DELETE ended: a list of that moment may not show it yet.
func (m memory) lastWrite() time.Time {
	return slices.MaxFunc([]time.Time{m.lastPost, m.lastDelete}, time.Time.Compare)
}

// listed is what one list, complete, shows of a Job.
type listed struct {
	started time.Time
	present bool
	job     manager.Job
	pod     kube.PodState
}

// postOutcome is how a POST ended.
type postOutcome int

const (
	// postTaken: OSCAR has the Job, with our event.
	postTaken postOutcome = iota + 1
	// postOther: OSCAR has a Job of this name with another event.
	postOther
	// postNo: it was refused, and has not been made.
	postNo
	// postFailed: OSCAR says that it could not.
	postFailed
	// postUnsent: nothing reached OSCAR.
	postUnsent
	// postUnknown: there was no answer, or one that is not OSCAR's.
	postUnknown
)

func (o postOutcome) String() string {
	return [...]string{"", "taken", "other event", "refused", "failed", "not sent", "unanswered"}[o]
}

// step is what is done next about an attempt.
type step int

const (
	// stepRest: nothing is to be done, or not before decision.after.
	stepRest step = iota
	// stepClaim: take the attempt.
	stepClaim
	// stepBegin: read the event, report submitting, and POST.
	stepBegin
	// stepPost: POST once more.
	stepPost
	// stepLook: list the Jobs of the service, from now on.
	stepLook
	// stepDelete: DELETE the Job.
	stepDelete
	// stepHold: see to it that the pod of the Job, which is stuck, does not start any more.
	stepHold
	// stepRemove: delete the Job whose pod is held.
	stepRemove
	// stepReport: write the decision's state.
	stepReport
)

// decision is what plan answers.
type decision struct {
	step step
	// What a report is to say.
	state              record.JobState
	reason             record.JobReason
	status             int
	message            string
	startedAt, endedAt time.Time
	// pod is what the pod tells.
	pod *record.JobPod
	// found says that it stood among the Jobs after a restore.
	found bool
	// after says when to look again; 0: at the next event.
	after time.Duration
}

// maxPostPause is the longest pause between two POSTs, DELETEs or holds of an attempt.
const maxPostPause = 30 * time.Second

func (s situation) state() record.JobState {
	if s.report == nil {
		return ""
	}
	return s.report.State
}

// mine says whether only this process, in this session, has posted the attempt.
func (s situation) mine() bool {
	return s.report != nil && (s.report.Session == s.session || s.ours)
}

// listedSince is the newest listing, if its list was started then or later.
func (s situation) listedSince(at time.Time) *listed {
	if shown := s.memory.listed; shown != nil && !shown.started.Before(at) {
		return shown
	}
	return nil
}

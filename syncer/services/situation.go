package services

import (
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// whose is what a service of the desired name is to the desired record.
type whose int

const (
	// noService: there is no such service.
	noService whose = iota
	// ours: it carries the token of the desired life.
	ours
	// otherLife: it carries our marks with another uid.
	otherLife
	// markLost: it carries the uid of the desired life and not its token:
	// a user deleted it and made it again from what he had read.
	markLost
	// foreign: it carries neither.
	foreign
)

// local is the service of one name as OSCAR shows it.
type local struct {
	whose whose
	// generation of our marks; 0 when they were dropped by a user's PUT.
	generation int64
	// epoch of that generation; empty in the first one.
	epoch string
	// hash of the read-back (definition.ReadBack); empty when absent.
	hash string
	// storage says that it names an input, output or mount.
	storage bool
	// worker says that another cluster's service is its coordinator, and makes that its POST makes buckets.
	worker, makes bool
	// perishes names the volume that OSCAR would delete with it; empty for none.
	perishes string
	// marked says that it carries marks of a federation: annotations, or OSCAR's own
	// record of a group.
	marked bool
	// half says that it is listed and cannot be read: a half-created service
	// that OSCAR cannot delete. Known when fresh.
	half bool
	// differs names a field that is not as the desired generation asks; empty
	// when all are, or when the spec could not be read.
	differs string
	// running is how many jobs of a tombstone's service have not ended, at least, and
	// counted says that they were counted a moment ago.
	running int
	counted bool
	// uncounted is why they cannot be counted; empty when they can be, or may be soon.
	uncounted string
	// missing are buckets that its creation should have made and that are not
	// there; known when fresh, and by the list of the last probe.
	missing []string
	// leaves says that there is no service, and that a bucket stands that its DELETE would take away.
	leaves bool
	// silent are buckets of inputs that stand, and uploads to which may start no job.
	silent []string
	// secretAlone says that there is no service, and a Secret that a write for this life can have left.
	// Known when fresh.
	secretAlone bool
	// exposed says that OSCAR runs it as a Deployment, and runState whether that has instances:
	// known where the desired record orders it, and when fresh; empty without a Deployment.
	exposed  bool
	runState record.RunState
}

// situation is everything that a decision is made from.
type situation struct {
	session.Standing
	now     time.Time
	desired *record.Desired
	// revision is the mod revision of the desired record.
	revision int64
	// observed is our last report about this life of the replica, or nil.
	observed *record.Observed
	local    local
	// resync says that this is a periodic look and not an answer to an event.
	resync bool
	// fresh says that the service was read by itself, with its buckets,
	// and desired and observed linearizably; otherwise all come from a list and a
	// mirror that may be a little old. Only a fresh situation is acted upon.
	fresh  bool
	memory memory
	// updated says that OSCAR has just done a PUT of the whole definition. What else it shows then
	// than before, and was not asked for, no PUT brings back: what OSCAR gave at the creation, or
	// what a new version of it adds.
	updated bool
	// version of OSCAR, asked for before the service; empty when it is not known, and where drift is repaired.
	version string
	// moved says that the service was last seen in place with another storage than it is
	// sent with now: this syncer has been started with or without a server for its OSCAR.
	moved bool
	// scripted says that the service is exposed and runs its script, and serverless whether OSCAR has a serverless
	// backend, which is asked where it is.
	scripted   bool
	serverless backend
	// token is about the access token that a creation needs, or the deletion of buckets or a volume.
	token ownerToken
}

// backend is what is known of OSCAR's serverless backend.
type backend int

const (
	unknownBackend backend = iota
	noBackend
	someBackend
)

// memory is what this process knows beyond the records.
type memory struct {
	// late is how long a write that was not answered may take effect.
	late time.Duration
	// postUntil and deleteUntil tell how long a POST or DELETE that was not
	// answered may still take effect. Zero: none is.
	postUntil, deleteUntil time.Time
	// lateDeleteUntil is that of one that has had an effect, or that another one followed, and of one of a bucket or volume.
	lateDeleteUntil time.Time
	// putUntil tells how long a PUT that was not answered may still bring back the service's storage.
	putUntil time.Time
	// workingUntil is how long such a POST is taken to be still at work on a service that is seen
	// already: it makes the buckets last, within seconds.
	workingUntil time.Time
	// goneSince is since when no service of the name was seen.
	goneSince time.Time
	// halfSince is since when the service was always seen half-created.
	halfSince time.Time
	// tried is the step that failed last, tries how often it was tried, and notBefore when its next try may
	// start.
	tried     act
	tries     int
	notBefore time.Time
	// failure is what the last try ended with, and final that it is told as the
	// outcome: until then it is only why the step goes on.
	failure *failure
	final   bool
	// unconfirmed says that OSCAR failed in the POST of this life, or broke it off: it may have made the
	// service and died before it registered its webhook. registerFrom is when that POST is over.
	unconfirmed  bool
	registerFrom time.Time
	// bucketsMade says that writes of this process made buckets of this life.
	bucketsMade bool
	// bucketsDropped says that the order about the buckets of this life is carried out, as far as it can be.
	bucketsDropped bool
	// volume is what the service mounts, or mounted; nil when that is not known, or none.
	volume *record.Volume
	// volumeDone says that the order about it is carried out, as far as it can be.
	volumeDone bool
	// leavesSecret says that a write can have left the Secret of this life alone, and that this process can delete it.
	leavesSecret bool
	// secretTold says that OSCAR refused to make the service again because its Secret stands.
	secretTold bool
	// repairs counts repairs since the service was last seen undisturbed.
	repairs int
	// unfixable is the read-back at which repairing was given up.
	unfixable string
}

// failure is why a write did not have its effect.
type failure struct {
	reason  record.Reason
	message string
	// status is what OSCAR answered; 0 when it did not.
	status int
	// definite says that asking again gets the same answer.
	definite bool
}

// act is a step.
type act int

const (
	// rest: nothing is to be done.
	rest act = iota
	// look: read again after decision.after.
	look
	// castVote: check and answer a prepare.
	castVote
	// report: write decision.phase, reason and message, if they are news.
	report
	// reread: get a fresh situation and plan again.
	reread
	// settle: report ready with the fingerprint of the read-back.
	settle
	// acknowledge: report a tombstone's service as deleted.
	acknowledge
	// count: count the running jobs of a tombstone's service, and plan again.
	count

	// The steps from here on write to OSCAR, one call each.

	// create: POST.
	create
	// update: PUT of the whole definition.
	update
	// register: PUT that has OSCAR register the service's webhook at its MinIO; an update follows.
	register
	// detach: PUT without input, output and mount.
	detach
	// erase: DELETE.
	erase
	// dropBuckets: DELETE of the buckets that this life made.
	dropBuckets
	// dropVolume: DELETE of the volume that this life made.
	dropVolume
	// heal: make a half-created service deletable, through Kubernetes.
	heal
	// sweep: POST of a service that is gone, so that its DELETE takes along the Secret that is left.
	sweep
	// release: PUT without our marks.
	release
	// start and stop: POST of the path of OSCAR that is called so.
	start
	stop
)

// writes says whether the step calls OSCAR to change something.
func (a act) writes() bool { return a >= create }

func (a act) String() string {
	names := [...]string{"rest", "look", "vote", "report", "reread", "settle", "acknowledge", "count", "create", "update", "register", "detach", "erase", "drop buckets", "drop volume", "heal", "sweep", "release", "start", "stop"}
	if int(a) < len(names) {
		return names[a]
	}
	return fmt.Sprintf("act(%d)", int(a))
}

// decision is what plan answers.
type decision struct {
	act     act
	phase   record.Phase
	reason  record.Reason
	message string
	// after says when to look again; 0: at the next event or resync.
	after time.Duration
	// until goes with look: nothing is written to OSCAR before.
	until time.Time
	// repair says that a write brings back what was in place before, and drifted
	// that it is reported as drift first, with message.
	repair, drifted bool
	// operation and status tell which call failed, or would.
	operation string
	status    int
	// held goes with phase held, when what stands is ahead of the store.
	held *record.Held
}

// Pauses between looks.
const (
	pollWrite  = 2 * time.Second
	pollJobs   = 10 * time.Second
	maxRepairs = 3
)

// tellsDrift says whether drift is news: a repair that failed has told it.
func (s situation) tellsDrift() bool {
	o := s.observed
	return o == nil || o.Phase != record.PhaseFailed && (o.Phase != record.PhaseDrifted || o.Operation == "")
}

// applied says that the desired generation was once seen in place.
func (s situation) applied() bool {
	return s.observed != nil && s.observed.Applied() == s.desired.Generation
}

// stood says that the desired generation was once seen in place, as a report told that a readmission has deleted.
func (s situation) stood() bool {
	told := s.desired.Told
	return told != nil && told.Applied == s.desired.Generation && (s.observed == nil || s.observed.ReadBack == "")
}

// everStood says that a generation of this life was once seen in place, as the last report tells or one that a readmission has
// deleted.
func (s situation) everStood() bool {
	told := s.desired.Told
	return s.observed != nil && s.observed.ReadBack != "" || told != nil && told.Applied != 0
}

// wasSeen says that a service of this life was seen: in place, or not yet, and a PUT was sent to it.
func (s situation) wasSeen() bool { return s.everStood() || s.observed != nil && s.observed.PutSent }

// forgotten says that the service has the marks of what is desired, and that no report tells whether it was in place: those
// of a cluster that was revoked are gone.
func (s situation) forgotten() bool {
	o := s.observed
	return s.local.generation == s.desired.Generation && s.local.epoch == s.desired.Epoch && (o == nil || o.Phase == record.PhaseDrifted && o.ReadBack == "")
}

// detached says that the service names no bucket, and did when it was last ready, or that is not known: its DELETE may have
// been sent.
func (s situation) detached() bool {
	o := s.observed
	return !s.local.storage && (o == nil || o.ReadBack == "" || len(o.Buckets) > 0)
}

// upgraded says that OSCAR is of another version than when the service was last seen as it was reported. It may
// show the same service otherwise, and there is no PUT to see that by.
func (s situation) upgraded() bool {
	return s.version != "" && s.observed.OscarVersion != "" && s.observed.OscarVersion != s.version
}

// mayBeUpgraded says that OSCAR does not tell whether it is upgraded.
func (s situation) mayBeUpgraded() bool {
	return s.version == "" && goesByVersion(s.desired) && s.applied() && s.observed.OscarVersion != ""
}

// trying is the phase of a service that a step is tried for again.
func (s situation) trying() record.Phase {
	switch {
	case s.desired.Tombstone():
		return record.PhaseDeleting
	case s.applied():
		return record.PhaseDrifted
	}
	return record.PhaseApplying
}

// backOff says whether a failed write has to wait, and what is said meanwhile.
func (s situation) backOff(next act) (decision, bool) {
	f, wait := s.memory.failure, s.memory.notBefore.Sub(s.now)
	if s.memory.tried != next || f == nil || wait <= 0 {
		return decision{}, false
	}
	phase := record.PhaseFailed
	if !s.memory.final {
		phase = s.trying()
	}
	return decision{act: report, phase: phase, reason: f.reason, message: f.message, operation: next.operation(), status: f.status, after: wait}, true
}

// unanswered is how long a POST or DELETE without an answer may still take effect.
func (s situation) unanswered() time.Duration {
	return max(s.memory.postUntil.Sub(s.now), s.memory.deleteUntil.Sub(s.now), 0)
}

// latePut is how long a PUT without an answer may still take effect.
func (s situation) latePut() time.Duration { return max(s.memory.putUntil.Sub(s.now), 0) }

// lateDelete is how long a DELETE without an answer may still take effect on what is made anew.
func (s situation) lateDelete() time.Duration { return max(s.memory.lateDeleteUntil.Sub(s.now), 0) }

// lookWithin looks again at what a write without an answer may still do. Most have their effect within seconds, and each
// look asks OSCAR: so the looks are soon seldom.
func (s situation) lookWithin(wait time.Duration) decision {
	waited := s.memory.late - wait
	return decision{act: look, after: min(wait, max(pollWrite, waited/8)), until: s.now.Add(wait)}
}

package syncer

import (
	"fmt"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// whose says to whom a service of the desired name belongs.
type whose int

const (
	// nobody: there is no such service.
	nobody whose = iota
	// ours: it carries the token of the desired life.
	ours
	// otherLife: it carries our marks with another uid.
	otherLife
	// markLost: it carries the uid of the desired life and not its token:
	// somebody deleted it and made it again from what he had read.
	markLost
	// foreign: it carries neither.
	foreign
)

// local is the service of one name as OSCAR shows it.
type local struct {
	whose whose
	// generation of our marks; 0 when they were dropped by somebody's PUT.
	generation int64
	// hash of the read-back (readBack); empty when absent.
	hash string
	// storage says that it names an input, output or mount.
	storage bool
	// half says that it is listed and cannot be read: a half-created service
	// that OSCAR cannot delete. Known when fresh.
	half bool
	// differs names a field that is not as the desired generation asks; empty
	// when all are, or when the spec could not be read.
	differs string
	// running is how many jobs have not ended; known when fresh, for a tombstone.
	running int
	// missing are buckets that its creation should have made and that are not
	// there; known when fresh.
	missing []string
}

// situation is everything that a decision is made from.
type situation struct {
	now     time.Time
	desired *record.Desired
	// revision is the mod revision of the desired record.
	revision int64
	// observed is our last report about this life of the replica, or nil.
	observed *record.Observed
	local    local
	// stopped says that the cluster is paused: nothing is written to OSCAR.
	stopped bool
	// resync says that this is a periodic look and not an answer to an event.
	resync bool
	// fresh says that the service was read by itself, with its buckets and jobs,
	// and desired and observed linearizably; otherwise all come from a list and a
	// mirror that may be a little old. Only a fresh situation is acted upon.
	fresh  bool
	memory memory
}

// memory is what this process knows beyond the records.
type memory struct {
	// postUntil and deleteUntil tell how long a POST or DELETE that was not
	// answered may still take effect. Zero: none is.
	postUntil, deleteUntil time.Time
	// workingUntil is how long such a POST may still be making buckets.
	workingUntil time.Time
	// halfSince is since when the service was always seen half-created.
	halfSince time.Time
	// tried is the step that failed last, and notBefore when its next try may
	// start.
	tried     act
	notBefore time.Time
	// failure is what the last tries ended with, once it is worth telling.
	failure *failure
	// bucketsDropped says that no bucket of this life is left.
	bucketsDropped bool
	// repairs counts repairs since the service was last seen undisturbed.
	repairs int
	// unfixable is the read-back at which repairing was given up.
	unfixable string
}

// failure is why a write did not have its effect.
type failure struct {
	reason    record.Reason
	operation string
	// status is what OSCAR answered; 0 when it did not.
	status  int
	message string
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

	// The steps from here on write to OSCAR, one call each.

	// create: POST.
	create
	// update: PUT of the whole definition.
	update
	// detach: PUT without input, output and mount.
	detach
	// erase: DELETE.
	erase
	// dropBuckets: DELETE of the buckets that this life made.
	dropBuckets
	// heal: make a half-created service deletable, through Kubernetes.
	heal
)

// writes says whether the step calls OSCAR to change something.
func (a act) writes() bool { return a >= create }

func (a act) String() string {
	names := [...]string{"rest", "look", "vote", "report", "reread", "settle", "acknowledge", "create", "update", "detach", "erase", "drop buckets", "heal"}
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
	// repair says that a write brings back what was in place before, and drifted
	// that it is reported as drift first, with message.
	repair, drifted bool
	// failure goes with phase failed.
	failure *failure
}

// Pauses between looks.
const (
	pollWrite  = 2 * time.Second
	pollJobs   = 10 * time.Second
	maxRepairs = 3
)

// plan names the next step for one service. It is pure.
//
//	          prepare ──► vote ──► prepared | refused
//	             │
//	             ▼ apply
//	absent ──► create ──────────► read ───► ready ◄──────────────┐
//	  ▲  (unanswered: look)         │ differs                    │
//	  │                             ▼                            │
//	  │                           update ──► read ───────────────┤
//	  │                             ▲                            │
//	  │ vanished (drifted)          │ read-back changed (drifted)│
//	  └─────────────────────────────┴────────────────────────────┘
//	             │
//	             ▼ tombstone
//	ours ──► (jobs end) ──► detach ──► erase ──► absent ──► (drop buckets) ──► deleted
//
// What is foreign, of another life or ahead of the desired record is reported
// (failed, held) and never changed.
func plan(s situation) decision {
	switch {
	case s.desired == nil:
		return decision{act: rest}
	case s.desired.Tombstone():
		return planRemoval(s)
	case s.desired.Intent == record.IntentPrepare:
		return planVote(s)
	case s.desired.Intent == record.IntentApply:
		return planApply(s)
	}
	return decision{act: rest}
}

func planVote(s situation) decision {
	if d := s.desired.Deadline; d != nil && s.now.After(d.Time) {
		return decision{act: rest} // the vote would be late
	}
	answered := s.observed != nil && s.observed.Vote != nil && s.observed.Vote.Revision == s.revision
	if answered && (s.observed.Vote.Answer == record.VoteYes || !s.resync) {
		return decision{act: rest}
	}
	return decision{act: castVote}
}

func planApply(s situation) decision {
	switch s.local.whose {
	case nobody:
		return planAbsent(s)
	case ours:
		return planPresent(s)
	case otherLife:
		return held(record.ReasonAheadOfDesired, "a service of another life of this replica stands here; it is not changed: delete it on the cluster, or delete the federation, if it is not wanted")
	case markLost:
		return held(record.ReasonMarkLost, "the service was deleted and made again by somebody else, with our annotations and another token; it is not changed: delete it on the cluster to have it deployed again")
	}
	message := "a service of this name that is not of the federation stands on the cluster; it is not changed: delete or rename it, or choose another name"
	if s.observed != nil && s.observed.ReadBack != "" {
		return held(record.ReasonNameTaken, message)
	}
	return decision{act: report, phase: record.PhaseFailed, reason: record.ReasonNameTaken, message: message}
}

// tellsDrift says whether drift is news: a repair that failed has told it.
func (s situation) tellsDrift() bool { return s.observed.Phase != record.PhaseFailed }

// applied says that the desired generation was once seen in place.
func (s situation) applied() bool {
	return s.observed != nil && s.observed.ReadBack != "" && s.observed.ObservedGeneration == s.desired.Generation
}

// backOff says whether a failed write has to wait, and what is said meanwhile.
func (s situation) backOff(next act) (decision, bool) {
	if s.memory.tried != next {
		return decision{}, false
	}
	wait := s.memory.notBefore.Sub(s.now)
	if wait <= 0 {
		return decision{}, false
	}
	if f := s.memory.failure; f != nil {
		return decision{act: report, phase: record.PhaseFailed, reason: f.reason, message: f.message, failure: f, after: wait}, true
	}
	return decision{act: look, after: wait}, true
}

func held(reason record.Reason, message string) decision {
	return decision{act: report, phase: record.PhaseHeld, reason: reason, message: message}
}

// planAbsent: the service is wanted and not listed.
func planAbsent(s situation) decision {
	applied := s.applied()
	vanished := decision{act: report, phase: record.PhaseDrifted, reason: record.ReasonDrifted,
		message: "the service vanished from the cluster"}
	switch {
	case s.stopped || s.desired.Paused:
		if !applied {
			return decision{act: rest}
		}
		vanished.reason = record.ReasonPaused
		vanished.message += "; it is made again when the pause ends"
		return vanished
	case applied && s.desired.Drift == driftReport:
		vanished.message += "; it is not made again, since federation.drift is report"
		return vanished
	}
	if wait := s.unanswered(); wait > 0 {
		return decision{act: look, after: min(wait, pollWrite)}
	}
	if d, wait := s.backOff(create); wait {
		return d
	}
	d := decision{act: create}
	if applied {
		d.repair, d.drifted, d.message = true, s.tellsDrift(), vanished.message+"; it is made again"
	}
	return d
}

// unanswered is how long a POST or DELETE without an answer may still take effect.
func (s situation) unanswered() time.Duration {
	return max(s.memory.postUntil.Sub(s.now), s.memory.deleteUntil.Sub(s.now), 0)
}

// planPresent: the service is wanted, listed and ours.
func planPresent(s situation) decision {
	want, have := s.desired.Generation, s.local.generation
	switch {
	case have > want:
		return held(record.ReasonAheadOfDesired, fmt.Sprintf(
			"the service has generation %d and %d is desired; it is not changed: the store may have been restored from an older state", have, want))
	case s.local.half:
		return planHalf(s)
	}
	applied := s.applied()
	undisturbed := applied && s.local.hash == s.observed.ReadBack
	switch {
	case undisturbed:
		return decision{act: report, phase: record.PhaseReady, reason: record.ReasonApplied}
	case applied:
		return planDrift(s)
	case s.local.differs == "" && have == want:
		return planAsAsked(s)
	case s.stopped || s.desired.Paused:
		return decision{act: rest} // pending until the pause ends
	}
	if d, wait := s.backOff(update); wait {
		return d
	}
	return decision{act: update}
}

// planAsAsked: the service is as desired, and not reported so yet.
func planAsAsked(s situation) decision {
	switch {
	case !s.fresh:
		return decision{act: reread}
	case len(s.local.missing) == 0:
		return decision{act: settle}
	}
	if wait := s.memory.workingUntil.Sub(s.now); wait > 0 {
		return decision{act: look, after: min(wait, pollWrite)}
	}
	if s.observed != nil && s.observed.ReadBack != "" && !s.stopped && !s.desired.Paused {
		// Its creation was complete: the PUT of this generation makes them.
		if d, wait := s.backOff(update); wait {
			return d
		}
		return decision{act: update}
	}
	f := &failure{reason: record.ReasonCreateFailed, operation: "create", message: fmt.Sprintf(
		"the service is half-created: OSCAR made it without its buckets (%s), so nothing triggers it; delete the federation and create it again",
		strings.Join(s.local.missing, ", "))}
	return decision{act: report, phase: record.PhaseFailed, reason: f.reason, message: f.message, failure: f}
}

// planDrift: the desired generation was applied, and somebody changed it.
func planDrift(s situation) decision {
	drifted := decision{act: report, phase: record.PhaseDrifted, reason: record.ReasonDrifted}
	what := "the service was changed on the cluster"
	if s.local.differs != "" {
		what += fmt.Sprintf(" (%s is not as desired)", s.local.differs)
	}
	switch {
	case s.stopped || s.desired.Paused:
		drifted.reason, drifted.message = record.ReasonPaused, what+"; it is repaired when the pause ends"
		return drifted
	case s.desired.Drift == driftReport:
		drifted.message = what + "; it is not repaired, since federation.drift is report"
		return drifted
	case s.memory.repairs >= maxRepairs && (s.memory.unfixable == "" || s.memory.unfixable == s.local.hash):
		drifted.reason = record.ReasonDriftUnfixable
		drifted.message = fmt.Sprintf("%s; %d repairs had no effect: find who changes it, or set federation.drift to report", what, maxRepairs)
		return drifted
	}
	if d, wait := s.backOff(update); wait {
		return d
	}
	return decision{act: update, repair: true, drifted: s.tellsDrift(), message: what + "; it is repaired"}
}

// planHalf: OSCAR lists the service and cannot read, change or delete it.
func planHalf(s situation) decision {
	wedged := decision{act: report, phase: record.PhaseWedged, reason: record.ReasonCreateFailed,
		message: "OSCAR lists the service and cannot read it: it is half-created, and OSCAR cannot delete it; a syncer with access to Kubernetes heals it, or make an empty PodTemplate of its name",
		after:   pollJobs}
	if s.desired.Tombstone() {
		wedged.reason = record.ReasonDeleteFailed
	}
	if s.memory.workingUntil.After(s.now) || s.memory.deleteUntil.After(s.now) || s.now.Sub(s.memory.halfSince) < pollWrite {
		// A POST or DELETE that is at work, ours or somebody's, passes through
		// this state: only one that lasts is stuck.
		return decision{act: look, after: pollWrite}
	}
	if _, wait := s.backOff(heal); wait || s.stopped {
		return wedged
	}
	return decision{act: heal, phase: wedged.phase, reason: wedged.reason, message: wedged.message}
}

// planRemoval: the desired record is a tombstone.
func planRemoval(s situation) decision {
	if s.observed != nil && s.observed.Phase == record.PhaseDeleted && s.observed.DesiredRevision == s.revision {
		return decision{act: rest}
	}
	switch s.local.whose {
	case nobody:
		if wait := s.unanswered(); wait > 0 {
			return decision{act: look, after: min(wait, pollWrite)}
		}
		return planGone(s, "")
	case otherLife:
		return held(record.ReasonAheadOfDesired, "the service belongs to another life of this replica than the one to delete; it is not changed")
	case ours:
		return planOurEnd(s)
	}
	if wait := s.unanswered(); wait > 0 {
		return decision{act: look, after: min(wait, pollWrite)}
	}
	return planGone(s, "a service of this name that is not of the federation stands on the cluster; it is left alone")
}

// planGone: our service is not there (any more).
func planGone(s situation, message string) decision {
	if s.desired.Data == dataDelete && s.observed != nil && len(s.observed.BucketsMade) > 0 && !s.memory.bucketsDropped {
		if s.stopped {
			return decision{act: rest}
		}
		if d, wait := s.backOff(dropBuckets); wait {
			return d
		}
		return decision{act: dropBuckets}
	}
	return decision{act: acknowledge, message: message}
}

// planOurEnd: our service stands and is to be deleted.
func planOurEnd(s situation) decision {
	have := s.local.generation
	if have == 0 && s.observed != nil {
		have = s.observed.ObservedGeneration
	}
	switch {
	case have > s.desired.Generation:
		return held(record.ReasonAheadOfDesired, fmt.Sprintf(
			"the service has generation %d and the tombstone is of %d; it is not changed: the store may have been restored from an older state", have, s.desired.Generation))
	case s.local.half:
		return planHalf(s)
	case s.stopped:
		return decision{act: rest}
	case s.local.running > 0 && s.desired.Jobs != jobsCancel:
		return decision{act: look, after: pollJobs} // its DELETE would kill them
	}
	next := erase
	if s.local.storage {
		next = detach
	}
	if d, wait := s.backOff(next); wait {
		return d
	}
	return decision{act: next}
}

// Words of desired records that package record leaves to their users.
const (
	driftReport = "report"
	dataDelete  = "delete"
	jobsCancel  = "cancel"
)

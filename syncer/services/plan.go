package services

import (
	"fmt"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
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
//	POST failed or broke off, and made all the same ──► register ──► update ──► read
//	             │
//	             ▼ tombstone
//	ours ──► (jobs end) ──► detach ──► erase ──► absent ──► (drop buckets) ──► deleted
//	ready, to be stopped or started ──► stop | start ──► ready
//	ours, to be kept ──► release ──► without marks ──► deleted (from the records)
//
// What is foreign, of another life or ahead of the desired record is reported
// (failed, held) and never changed.
func plan(s situation) decision {
	d := planned(s)
	if s.Restored && d.act.writes() {
		return decision{act: rest}
	}
	return d
}

func planned(s situation) decision {
	switch {
	case s.desired == nil:
		return decision{act: rest}
	case record.Strange(s.desired) != "":
		return decision{act: rest} // a newer control plane asks for what is not known here
	case s.desired.Tombstone():
		return planRemoval(s)
	case s.desired.Intent == record.IntentPrepare:
		return planVote(s)
	case s.desired.Intent == record.IntentApply:
		return planApply(s)
	}
	return decision{act: rest} // there is no other intent
}

func planVote(s situation) decision {
	if s.local.whose == ours && s.local.generation > 0 && s.ahead(s.local.generation) {
		return heldAhead(s, s.local.generation)
	}
	if vote := s.observed.VoteOn(s.revision); vote != nil && (vote.Answer == record.VoteYes || !s.resync) {
		return decision{act: rest}
	}
	return decision{act: castVote}
}

func planApply(s situation) decision {
	switch s.local.whose {
	case noService:
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

func held(reason record.Reason, message string) decision {
	return decision{act: report, phase: record.PhaseHeld, reason: reason, message: message}
}

// planAbsent: the service is wanted and not listed. It is told as gone only when GET
// does not show it, either; a write looks by itself.
func planAbsent(s situation) decision {
	d := planMissing(s)
	if (d.act == report || s.unanswered() > 0) && !s.fresh {
		return decision{act: reread}
	}
	return d
}

func planMissing(s situation) decision {
	if s.lost() {
		return heldMissing()
	}
	applied := s.applied()
	vanished := decision{act: report, phase: record.PhaseDrifted, reason: record.ReasonDrifted,
		message: "the service vanished from the cluster"}
	switch {
	case s.Stopped || s.desired.Paused:
		if !applied {
			return s.waits()
		}
		vanished.reason = record.ReasonPaused
		vanished.message += "; it is made again when the pause ends"
		return vanished
	case (applied || s.stood()) && s.desired.Drift == oscar.DriftReport:
		vanished.message += "; it is not made again, since federation.drift is report"
		return vanished
	}
	if wait := max(s.unanswered(), s.lateDelete()); wait > 0 {
		return s.lookWithin(wait)
	}
	if wait := s.memory.goneSince.Add(postTakes).Sub(s.now); s.wasSeen() && s.local.leaves && len(s.local.silent) == 0 && !s.local.secretAlone && wait > 0 {
		// Somebody's DELETE takes the service away first, with its Secret, and its buckets when MinIO has restarted.
		wait = min(wait, pollWrite)
		if !applied {
			return decision{act: look, after: wait}
		}
		vanished.message += "; it is made again"
		vanished.after = wait
		return vanished
	}
	phase, prefix := record.PhaseFailed, ""
	if applied {
		phase, prefix = record.PhaseDrifted, vanished.message+": "
	}
	if d, none := s.without(phase, prefix, create); none {
		return d
	}
	if d, wait := s.backOff(create); wait {
		return d
	}
	if wait := s.memory.workingUntil.Sub(s.now); s.local.secretAlone && wait > 0 {
		return decision{act: look, after: min(wait, pollWrite)} // the POST of an earlier process may go on
	}
	d := decision{act: create}
	if applied {
		d.repair, d.drifted, d.message = true, s.tellsDrift(), vanished.message+"; it is made again"
	}
	return d
}

// planPresent: the service is wanted, listed and ours.
func planPresent(s situation) decision {
	switch {
	case s.unmarked():
		return heldAhead(s, 0)
	case s.local.generation > 0 && s.ahead(s.local.generation):
		return heldAhead(s, s.local.generation)
	case s.local.half:
		return planHalf(s)
	case s.mayLackWebhook():
		return planRegister(s)
	}
	// With another storage it is as new: what OSCAR shows then is compared with nothing.
	applied := s.applied() && !s.moved
	undisturbed := applied && s.local.hash == s.observed.ReadBack
	asAsked := s.local.differs == "" && s.local.generation == s.desired.Generation && s.local.epoch == s.desired.Epoch
	switch {
	case undisturbed && len(s.local.missing) > 0:
		return planDrift(s, s.lacksBuckets())
	case undisturbed && s.runsOtherwise():
		return planRunState(s)
	case undisturbed && len(s.local.silent) > 0:
		return s.tellSilent()
	case undisturbed:
		return decision{act: report, phase: record.PhaseReady, reason: record.ReasonApplied}
	case asAsked && (!applied || (s.updated || s.upgraded()) && len(s.local.missing) == 0):
		return planAsAsked(s)
	case s.desired.Drift == oscar.DriftReport && !s.fresh && (applied && asAsked || s.forgotten()):
		return decision{act: reread} // with the version that OSCAR is of now
	case asAsked && s.mayBeUpgraded() && len(s.local.missing) == 0:
		return decision{act: rest} // until OSCAR tells it
	case applied, s.desired.Drift == oscar.DriftReport && s.forgotten():
		return planDrift(s, whatChanged(s))
	case s.Stopped || s.desired.Paused:
		return s.waits()
	}
	return planUpdate(s)
}

// mayLackWebhook says that nothing shows that OSCAR came as far as the webhook when it made the service. OSCAR
// shows no webhook, and a PUT of the same definition registers none.
func (s situation) mayLackWebhook() bool {
	return s.memory.unconfirmed && !s.proven() && !((s.applied() || s.stood()) && s.desired.Drift == oscar.DriftReport)
}

// proven says that buckets show the webhook: OSCAR makes those of a POST after it has registered it. A POST that was
// sent without storage needs none: the update that attaches the storage has it registered.
func (s situation) proven() bool {
	return s.local.makes && (len(s.local.missing) == 0 || s.halfCreated())
}

// halfCreated says that the first creation of a coordinator ended before its buckets. A PUT makes them, but no tags,
// without which nobody is given a link to them: it is told. A worker does without.
func (s situation) halfCreated() bool {
	return !s.local.worker && len(s.local.missing) > 0 && !s.everStood()
}

func (s situation) lacksBuckets() string {
	return fmt.Sprintf("the service is without its buckets (%s)", strings.Join(s.local.missing, ", "))
}

// planRegister: the webhook is registered once, whether it is there or not.
func planRegister(s situation) decision {
	if s.Stopped || s.desired.Paused {
		if s.applied() {
			return decision{act: rest}
		}
		return s.waits()
	}
	if wait := s.memory.registerFrom.Sub(s.now); wait > 0 {
		return decision{act: look, after: min(wait, pollWrite)}
	}
	if d, stopped := s.startFirst(); stopped {
		return d
	}
	if d, wait := s.backOff(register); wait {
		return d
	}
	return decision{act: register}
}

// waits: what is desired is applied when the pause ends. That is told once in an epoch, and when a difference was
// resolved: the service was compared.
func (s situation) waits() decision {
	if o := s.observed; o == nil && s.Epoch == "" || o != nil && o.Epoch == s.Epoch && o.Phase != record.PhaseHeld {
		return decision{act: rest}
	}
	return decision{act: report, phase: record.PhasePending, reason: record.ReasonPaused,
		message: fmt.Sprintf("generation %d will be applied when the pause ends", s.desired.Generation)}
}

// planUpdate: a change that is not in place yet.
func planUpdate(s situation) decision {
	if d, cannot := s.cannotUpdate(record.PhaseFailed, ""); cannot {
		return d
	}
	if d, stopped := s.startFirst(); stopped {
		return d
	}
	if d, wait := s.backOff(update); wait {
		return d
	}
	return decision{act: update}
}

// cannotUpdate decides what becomes of a service that no PUT is sent for. Without a serverless backend each PUT of an
// exposed service empties its script, and no other call of OSCAR brings that back.
func (s situation) cannotUpdate(phase record.Phase, prefix string) (decision, bool) {
	if d, none := s.without(phase, prefix, update); none {
		return d, true
	}
	switch {
	case !s.scripted || s.serverless == someBackend:
		return decision{}, false
	case s.serverless == noBackend:
		return decision{act: report, phase: phase, reason: record.ReasonUpdateFailed, operation: update.operation(), message: prefix +
			"an OSCAR without a serverless backend empties the script of an exposed service that is changed, so it is left as it is: delete the service and create it again"}, true
	case !s.fresh:
		return decision{act: reread}, true
	}
	return decision{act: look, after: pollWrite}, true
}

// without decides what becomes of a service that cannot be made or changed for want of a
// token. It is not tried again and again: the token's arrival is an event.
func (s situation) without(phase record.Phase, prefix string, next act) (decision, bool) {
	switch {
	case !s.token.needed || s.token.reason == "":
		return decision{}, false
	case s.token.pending:
		return decision{act: look, after: pollWrite}, true
	}
	return decision{act: report, phase: phase, reason: s.token.reason, message: prefix + s.token.message, operation: next.operation()}, true
}

// planAsAsked: the service is as desired, and not reported so yet.
func planAsAsked(s situation) decision {
	switch {
	case !s.fresh:
		return decision{act: reread}
	case len(s.local.missing) == 0 && s.runsOtherwise():
		return planRunState(s)
	case len(s.local.missing) == 0 && s.memory.unconfirmed && s.now.Before(s.memory.registerFrom):
		return decision{act: look, after: pollWrite} // when the rest of its POST fails, OSCAR takes the service away
	case len(s.local.missing) == 0:
		return decision{act: settle}
	}
	if wait := s.memory.workingUntil.Sub(s.now); wait > 0 {
		return decision{act: look, after: min(wait, pollWrite)}
	}
	switch {
	case s.stood():
		return planDrift(s, s.lacksBuckets())
	case s.halfCreated():
		return decision{act: report, phase: record.PhaseFailed, reason: record.ReasonCreateFailed, operation: create.operation(), message: fmt.Sprintf(
			"the service is half-created: OSCAR made it without its buckets (%s), so nothing triggers it; delete the federation and create it again",
			strings.Join(s.local.missing, ", "))}
	case s.Stopped, s.desired.Paused:
		return s.waits()
	}
	return planUpdate(s) // which makes them
}

// whatChanged says what a user has done to the service.
func whatChanged(s situation) string {
	what := "the service was changed on the cluster"
	if s.local.differs != "" {
		what += fmt.Sprintf(" (%s is not as desired)", s.local.differs)
	}
	return what
}

// planDrift: the desired generation was applied, and its definition has changed since.
func planDrift(s situation, what string) decision { return repairBy(s, update, what) }

// repairBy: what was ordered was in place, and something happened to it since. step brings it back.
func repairBy(s situation, step act, what string) decision {
	drifted := decision{act: report, phase: record.PhaseDrifted, reason: record.ReasonDrifted}
	switch {
	case s.Stopped || s.desired.Paused:
		drifted.reason, drifted.message = record.ReasonPaused, what+"; it is repaired when the pause ends"
		return drifted
	case s.desired.Drift == oscar.DriftReport:
		drifted.message = what + "; it is not repaired, since federation.drift is report"
		return drifted
	case s.memory.repairs >= maxRepairs && (s.memory.unfixable == "" || s.memory.unfixable == s.local.hash):
		drifted.reason = record.ReasonDriftUnfixable
		drifted.message = fmt.Sprintf("%s; %d repairs had no effect: find who changes it, or set federation.drift to report", what, maxRepairs)
		return drifted
	}
	if step == update {
		if d, cannot := s.cannotUpdate(record.PhaseDrifted, what+": "); cannot {
			return d
		}
		if d, stopped := s.startFirst(); stopped {
			return d
		}
	}
	if d, wait := s.backOff(step); wait {
		return d
	}
	return decision{act: step, repair: true, drifted: s.tellsDrift(), message: what + "; it is repaired"}
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
		// A POST or DELETE that is at work, ours or a user's, passes through
		// this state: only one that lasts is stuck.
		return decision{act: look, after: pollWrite}
	}
	if _, wait := s.backOff(heal); wait || s.Stopped {
		return wedged
	}
	return decision{act: heal, phase: wedged.phase, reason: wedged.reason, message: wedged.message}
}

package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// Decide gives the next step of a federation. It is pure: the same situation
// gives the same decision on every instance.
func Decide(s view.Situation, l Limits) Decision {
	if s.Strange() != "" {
		return Decision{} // what a newer version wrote is its own to decide; the log and the view tell of it
	}
	if d := decideEvacuation(s); d.Step != "" {
		return d
	}
	if s.Fed.Epoch != s.Epoch {
		switch s.Fed.Phase {
		case record.PhasePreparing:
			if s.Fed.Asked != s.Epoch {
				return askAgain(s, l)
			}
		case record.PhaseApplying:
			return acceptApplied(s)
		default:
		}
	}
	switch s.Fed.Phase {
	case record.PhasePreparing:
		return decidePreparing(s, l)
	case record.PhaseApplying:
		return decideApplying(s)
	case record.PhaseRollingBack:
		return RollingBack(s)
	case record.PhaseReady:
		return decideReady(s)
	case record.PhaseDeleting:
		return decideDeleting(s)
	case record.PhaseAborted, record.PhaseRolledBack:
		return decideResult(s, l)
	case record.PhaseChanging, record.PhaseDegraded:
		// These phases are computed and never stored.
	default:
		// These are phases of a replica.
	}
	return Decision{}
}

func decidePreparing(s view.Situation, l Limits) Decision {
	bestEffort := s.Fed.Deployment == oscar.DeploymentBestEffort
	var delay time.Duration
	yes, no := 0, 0
	for _, r := range s.Replicas {
		switch v := r.Vote(); {
		case r.Reported(record.PhaseHeld):
			no++
		case v == nil:
		case v.Answer == record.VoteYes:
			yes++
			delay = max(delay, time.Duration(v.DelayS)*time.Second)
		default:
			no++
		}
	}
	late := deadlinePassed(s)
	missing := len(s.Replicas) - yes - no
	switch {
	case no > 0 && !bestEffort:
		return Abort(s, func(r view.ReplicaState) *record.Failure { return adviseBestEffort(s, refusals(r), false) })
	case missing == 0 && delay > l.MaxDelay:
		d := Abort(s, func(r view.ReplicaState) *record.Failure { return queueTooLong(r, l.MaxDelay) })
		d.Fed.RetryAfter = int((delay - l.MaxDelay).Seconds()) + 1
		return d
	case missing == 0 && yes > 0, late && bestEffort && yes > 0:
		return Commit(s, l, min(delay, l.MaxDelay))
	case late || missing == 0:
		return Abort(s, func(r view.ReplicaState) *record.Failure {
			return adviseBestEffort(s, cmp.Or(refusals(r), noVote(r)), true)
		})
	}
	return Decision{Again: deadline(s)}
}

// Commit is transaction B: each replica that voted yes is applied. With best effort the others
// keep their prepare, without a deadline, and vote again.
func Commit(s view.Situation, l Limits, delay time.Duration) Decision {
	next := s.Fed
	d := Decision{Step: StepCommit, Fed: &next}
	// The delay is multiplied by 1.5: it is an estimate, and a create is not rolled back only
	// because it waited in a queue.
	delay += delay / 2
	if s.Fed.Prefetch {
		delay += l.PrefetchGrace
	}
	until := record.At(s.Now.Add(delay + l.ApplyGrace))
	next.Phase, next.Deadline = record.PhaseApplying, &until
	if s.Fed.Deployment == oscar.DeploymentBestEffort {
		next.Phase, next.Deadline, d.Request = record.PhaseReady, nil, s.Fed.Request
	}
	next.ChangedAt = record.At(s.Now)
	for _, r := range s.Replicas {
		rec := *r.Desired
		rec.Deadline, rec.DeadlineS = nil, 0
		if v := r.Vote(); v != nil && v.Answer == record.VoteYes {
			rec.Intent, rec.Deadline, rec.DeadlineS = record.IntentApply, &until, int64((delay+l.ApplyGrace)/time.Second)
		}
		d.Put = append(d.Put, PlacedAt(r, &rec))
	}
	return d
}

// Abort removes the prepare records: nothing was made anywhere.
func Abort(s view.Situation, cause func(view.ReplicaState) *record.Failure) Decision {
	next := s.Fed
	next.Members = slices.Clone(s.Fed.Members)
	next.Phase, next.Deadline, next.ChangedAt = record.PhaseAborted, nil, record.At(s.Now)
	d := Decision{Step: StepAbort, Fed: &next, DropName: true, Request: s.Fed.Request}
	for _, r := range s.Replicas {
		m := &next.Members[r.Member]
		m.Cause = cause(r)
		m.Rollback = &record.Rollback{State: record.RollbackNotCreated}
		d.Remove = append(d.Remove, removalOf(r, s))
	}
	view.BoundSentences(next.Members, 0)
	next.Code = string(abortCode(next.Members))
	next.Detail = FailureDetail(next.Members)
	return d
}

func decideApplying(s view.Situation) Decision {
	failed, ready := 0, 0
	for _, r := range s.Replicas {
		switch {
		case r.Reported(record.PhaseReady):
			ready++
		case r.DefinitelyFailed():
			failed++
		}
	}
	switch {
	case ready == len(s.Replicas):
		next := s.Fed
		next.Phase, next.Deadline, next.ChangedAt = record.PhaseReady, nil, record.At(s.Now)
		return Decision{Step: StepReady, Fed: &next, Request: s.Fed.Request}
	case failed > 0:
		return RollBack(s, func(r view.ReplicaState) *record.Failure {
			if !r.DefinitelyFailed() {
				return nil
			}
			return r.Failure(record.ReasonCreateFailed)
		})
	case deadlinePassed(s):
		return RollBack(s, tooLate)
	}
	return Decision{Again: deadline(s)}
}

// RollBack makes tombstones of all replicas of a creation. A tombstone deletes only a service
// with its uid.
func RollBack(s view.Situation, cause func(view.ReplicaState) *record.Failure) Decision {
	next := s.Fed
	next.Members = slices.Clone(s.Fed.Members)
	next.Phase, next.Deadline, next.ChangedAt = record.PhaseRollingBack, nil, record.At(s.Now)
	d := Decision{Step: StepRollBack, Fed: &next}
	for _, r := range s.Replicas {
		m := &next.Members[r.Member]
		m.Cause = cause(r)
		m.Rollback = &record.Rollback{State: record.RollbackPending}
		d.Put = append(d.Put, PlacedAt(r, tombstone(r.Desired, record.CauseRollback)))
	}
	view.BoundSentences(next.Members, 0)
	next.Code = string(fault.CodeReplicaFailed)
	next.Detail = FailureDetail(next.Members)
	return d
}

// RollingBack ends a rollback once every tombstone is settled.
func RollingBack(s view.Situation) Decision {
	for _, r := range s.Replicas {
		if r.Desired != nil && !r.Settled() {
			return Decision{}
		}
	}
	return RolledBack(s)
}

// RolledBack ends a rollback and frees the name. A replica whose tombstone is not acknowledged
// keeps it, and its location stays taken.
func RolledBack(s view.Situation) Decision {
	next := s.Fed
	next.Members = slices.Clone(s.Fed.Members)
	next.Phase, next.ChangedAt = record.PhaseRolledBack, record.At(s.Now)
	d := Decision{Step: StepRolledBack, Fed: &next, DropName: true, Request: s.Fed.Request}
	part, all := acknowledged(s.Replicas)
	if !all {
		// The remaining tombstones are removed in the next steps, and the outcome comes last.
		next.Phase, d = s.Fed.Phase, Decision{Step: StepPartlyRolledBack, Fed: &next}
	}
	removed := func(uid string) bool {
		return slices.ContainsFunc(part, func(p view.ReplicaState) bool { return p.At.UID == uid })
	}
	for _, r := range s.Replicas {
		m := &next.Members[r.Member]
		if all && (r.Desired != nil || m.Rollback == nil || m.Rollback.State == record.RollbackPending) || removed(m.UID) {
			m.Rollback = r.Rollback()
		}
	}
	for _, r := range part {
		d.Remove = append(d.Remove, removalOf(r, s))
	}
	view.BoundSentences(next.Members, 0)
	return d
}

// decideReady takes the next step of a ready federation: of a change that waits for votes, of
// members that leave, and of replicas that a best-effort creation could not make yet.
func decideReady(s view.Situation) Decision {
	var again time.Time
	if s.Fed.Change != nil {
		d := decideChange(s)
		if d.Step != "" {
			return d
		}
		again = d.Again
	}
	if d := decideLeaving(s); d.Step != "" {
		return d
	}
	next := s.Fed
	next.ChangedAt = record.At(s.Now)
	d := Decision{Step: StepJoin, Fed: &next}
	for _, r := range s.Replicas {
		if r.Desired == nil || r.Desired.Intent != record.IntentPrepare {
			continue
		}
		if v := r.Vote(); v != nil && v.Answer == record.VoteYes {
			rec := *r.Desired
			rec.Intent, rec.Deadline, rec.DeadlineS = record.IntentApply, nil, 0
			d.Put = append(d.Put, PlacedAt(r, &rec))
		}
	}
	switch r := readsNoParts(s); {
	case len(d.Put) > 0:
		return d
	case r != nil:
		return Decision{Step: StepWhole, Whole: r.Desired.UID}
	}
	return Decision{Again: again}
}

// readsNoParts is a replica that was sent parts, and whose syncer reads none: it is of an older
// version than the one before it, or lost its way to them. A change that waits for votes comes
// first.
func readsNoParts(s view.Situation) *view.ReplicaState {
	if len(s.Fed.Parts) == 0 || s.Fed.Change != nil {
		return nil
	}
	for i := range s.Replicas {
		r := &s.Replicas[i]
		if r.Desired != nil && !r.Desired.Tombstone() && r.WhyAway() == "" && !r.ReadsParts && !record.IsWholeSpec(r.Desired.Spec) {
			return r
		}
	}
	return nil
}

// decideDeleting removes acknowledged tombstones: all at once when every cluster is reachable,
// otherwise those of the reachable clusters, so that a cluster that is away for a month does
// not hold a name on the others.
func decideDeleting(s view.Situation) Decision {
	part, all := acknowledged(slices.Concat(s.Replicas, s.Leaving))
	left, waiting := 0, 0
	for _, r := range slices.Concat(s.Replicas, s.Leaving) {
		switch {
		case r.Desired == nil, r.Acknowledged():
		default:
			left++
			if !r.Settled() {
				waiting++
			}
		}
	}
	if left == 0 && all {
		d := Decision{Step: StepDeleted, RemoveFed: true}
		for _, r := range part {
			d.Remove = append(d.Remove, removalOf(r, s))
		}
		return d
	}
	if waiting > 0 || len(part) == 0 {
		return Decision{}
	}
	next := s.Fed
	next.ChangedAt = record.At(s.Now)
	d := Decision{Step: StepPartlyDeleted, Fed: &next}
	for _, r := range part {
		d.Remove = append(d.Remove, removalOf(r, s))
	}
	return d
}

// decideResult removes late acknowledgements of a result, and then the result.
func decideResult(s view.Situation, l Limits) Decision {
	next := s.Fed
	next.Members = slices.Clone(s.Fed.Members)
	d := Decision{Step: StepAcknowledged, Fed: &next}
	left := slices.ContainsFunc(s.Replicas, func(r view.ReplicaState) bool { return r.Desired != nil && !r.Acknowledged() })
	part, _ := acknowledged(s.Replicas)
	for _, r := range part {
		next.Members[r.Member].Rollback = r.Rollback()
		d.Remove = append(d.Remove, removalOf(r, s))
	}
	if len(d.Remove) > 0 {
		view.BoundSentences(next.Members, 0)
		return d
	}
	switch {
	case left:
		return Decision{}
	case s.Age < l.KeepResult:
		return Decision{Again: s.Now.Add(l.KeepResult - s.Age)}
	}
	return Decision{Step: StepForgotten, RemoveFed: true}
}

const (
	// deletedBytes bounds the bytes of deleted records in one transaction.
	deletedBytes = 256 << 10
	// MaxDeletedBytes bounds the deleted record of one replica: a report names as many buckets
	// as fit into it.
	MaxDeletedBytes = 512 << 10
)

// acknowledged lists the replicas whose acknowledged tombstones go in one transaction: as many
// as fit, and at least one.
func acknowledged(of []view.ReplicaState) (part []view.ReplicaState, all bool) {
	size := 0
	for _, r := range of {
		if !r.Acknowledged() {
			continue
		}
		size += r.DeletedSize()
		if len(part) > 0 && size > deletedBytes {
			return part, false
		}
		part = append(part, r)
	}
	return part, true
}

// tombstone orders the deletion of exactly this life of a replica.
func tombstone(d *record.Desired, cause record.Cause) *record.Desired {
	t := *d
	t.Intent, t.Cause = record.IntentDelete, cause
	t.Spec, t.Sees, t.Drift, t.Deadline, t.DeadlineS = "", nil, "", nil, 0
	return &t
}

// deadline is when the federation's deadline passes here: zero without one.
func deadline(s view.Situation) time.Time {
	if s.Fed.Deadline == nil {
		return time.Time{}
	}
	return gate.Due(s.Fed.ChangedAt, *s.Fed.Deadline, s.Since)
}

func deadlinePassed(s view.Situation) bool {
	return s.Fed.Deadline != nil && !s.Now.Before(deadline(s))
}

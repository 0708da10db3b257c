package controlplane

import (
	"cmp"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

// limits are the durations that decisions go by.
type limits struct {
	// prepareDeadline is how long votes are waited for.
	prepareDeadline time.Duration
	// applyGrace is added to the expected delay of the slowest write queue.
	applyGrace time.Duration
	// prefetchGrace is added for services whose images are prefetched.
	prefetchGrace time.Duration
	// maxDelay is the longest write queue that a creation is put behind.
	maxDelay time.Duration
	// keepResult is how long aborted and rolled_back federations are kept.
	keepResult time.Duration
}

// situation is one federation with all that a decision about it needs, as it
// stood at one revision of the store.
type situation struct {
	fed      record.Federation
	replicas []replicaState
	// adding are the replicas that a change waits for, leaving those whose
	// tombstones are not acknowledged yet.
	adding, leaving []replicaState
	// removing are the clusters that it is on and that are being removed.
	removing map[string]*record.Removal
	now      time.Time
	// age is how old the federation's record is, as all instances agree.
	age time.Duration
	// since is when this instance first saw the deadline that the federation has
	// now, and changeSince that of its change. Zero means when it was written.
	since, changeSince time.Time
	// epoch is the present one, as records name it.
	epoch string
}

// decision is the next step of a federation. Everything in it is one transaction
// that compares the federation's record.
type decision struct {
	// name of the step, for logs and metrics; empty when there is nothing to do.
	name string
	// fed is the federation's next record; nil leaves it, unless removeFed.
	fed       *record.Federation
	removeFed bool
	// dropName frees the owner's group_id.
	dropName bool
	put      []placed
	remove   []removal
	// drop are further keys that go, and add further records that come.
	drop []string
	add  []staged
	// leave is a cluster that the federation is to be rendered without; the rest
	// of the decision follows from that.
	leave string
	// fence, when set, is the revision of the fence that what it names was staged after.
	fence int64
	// request is the hash of the request whose outcome is known with this step.
	request string
	// again is when the clock alone may change the decision; zero when it cannot.
	again time.Time
}

// placed is a desired record at its place.
type placed struct {
	cluster, service string
	rec              *record.Desired
	// dropSpec names the spec that nothing refers to any more.
	dropSpec string
}

// removal takes a desired record, its report and its spec out of the store.
type removal struct {
	cluster, service string
	spec             string
	// deleted is kept for 90 days when a tombstone was acknowledged.
	deleted *record.Deleted
}

// decide gives the next step of a federation. It is pure: the same situation
// gives the same decision on every instance.
func decide(s situation, l limits) decision {
	if s.strange() != "" {
		return decision{} // what a newer version wrote is its own to decide; the log and the view tell of it
	}
	if d := decideEvacuation(s); d.name != "" {
		return d
	}
	if s.fed.Epoch != s.epoch {
		switch s.fed.Phase {
		case record.PhasePreparing:
			if s.fed.Asked != s.epoch {
				return askAgain(s, l)
			}
		case record.PhaseApplying:
			return acceptApplied(s)
		default:
		}
	}
	switch s.fed.Phase {
	case record.PhasePreparing:
		return decidePreparing(s, l)
	case record.PhaseApplying:
		return decideApplying(s)
	case record.PhaseRollingBack:
		return decideRollingBack(s)
	case record.PhaseReady:
		return decideReady(s)
	case record.PhaseDeleting:
		return decideDeleting(s)
	case record.PhaseAborted, record.PhaseRolledBack:
		return decideResult(s, l)
	case record.PhaseChanging, record.PhaseDegraded:
		// They are computed, and never stored.
	default:
		// Of a replica.
	}
	return decision{}
}

func decidePreparing(s situation, l limits) decision {
	bestEffort := s.fed.Deployment == oscar.DeploymentBestEffort
	var delay time.Duration
	yes, no := 0, 0
	for _, r := range s.replicas {
		switch v := r.vote(); {
		case r.reported(record.PhaseHeld):
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
	missing := len(s.replicas) - yes - no
	switch {
	case no > 0 && !bestEffort:
		return abort(s, func(r replicaState) *record.Failure { return s.adviseBestEffort(refusals(r), false) })
	case missing == 0 && delay > l.maxDelay:
		d := abort(s, func(r replicaState) *record.Failure { return queueTooLong(r, l.maxDelay) })
		d.fed.RetryAfter = int((delay - l.maxDelay).Seconds()) + 1
		return d
	case missing == 0 && yes > 0, late && bestEffort && yes > 0:
		return commit(s, l, delay)
	case late || missing == 0:
		return abort(s, func(r replicaState) *record.Failure {
			return s.adviseBestEffort(cmp.Or(refusals(r), noVote(r)), true)
		})
	}
	return decision{again: deadline(s)}
}

// commit is transaction B: everybody who said yes applies. With best effort those
// who did not keep their prepare, without a deadline, and vote again.
func commit(s situation, l limits, delay time.Duration) decision {
	next := s.fed
	d := decision{name: "commit", fed: &next}
	// Half as much again: the delay of a long queue is an estimate, and a create is
	// not rolled back for having waited.
	delay += delay / 2
	if s.fed.Prefetch {
		delay += l.prefetchGrace
	}
	until := record.At(s.now.Add(delay + l.applyGrace))
	next.Phase, next.Deadline = record.PhaseApplying, &until
	if s.fed.Deployment == oscar.DeploymentBestEffort {
		next.Phase, next.Deadline, d.request = record.PhaseReady, nil, s.fed.Request
	}
	next.ChangedAt = record.At(s.now)
	for _, r := range s.replicas {
		rec := *r.desired
		rec.Deadline, rec.DeadlineS = nil, 0
		if v := r.vote(); v != nil && v.Answer == record.VoteYes {
			rec.Intent, rec.Deadline, rec.DeadlineS = record.IntentApply, &until, int64((delay+l.applyGrace)/time.Second)
		}
		d.put = append(d.put, r.place(&rec))
	}
	return d
}

// abort removes the prepare records: nothing was made anywhere.
func abort(s situation, cause func(replicaState) *record.Failure) decision {
	next := s.fed
	next.Members = slices.Clone(s.fed.Members)
	next.Phase, next.Deadline, next.ChangedAt = record.PhaseAborted, nil, record.At(s.now)
	d := decision{name: "abort", fed: &next, dropName: true, request: s.fed.Request}
	for _, r := range s.replicas {
		m := &next.Members[r.member]
		m.Cause = cause(r)
		m.Rollback = &record.Rollback{State: record.RollbackNotCreated}
		d.remove = append(d.remove, r.removal(s))
	}
	boundSentences(next.Members)
	next.Code = string(abortCode(next.Members))
	next.Detail = failureDetail(next.Members)
	return d
}

func decideApplying(s situation) decision {
	failed, ready := 0, 0
	for _, r := range s.replicas {
		switch {
		case r.reported(record.PhaseReady):
			ready++
		case r.definitelyFailed():
			failed++
		}
	}
	switch {
	case ready == len(s.replicas):
		next := s.fed
		next.Phase, next.Deadline, next.ChangedAt = record.PhaseReady, nil, record.At(s.now)
		return decision{name: "ready", fed: &next, request: s.fed.Request}
	case failed > 0:
		return rollBack(s, func(r replicaState) *record.Failure {
			if !r.definitelyFailed() {
				return nil
			}
			return r.failure(record.ReasonCreateFailed)
		})
	case deadlinePassed(s):
		return rollBack(s, tooLate)
	}
	return decision{again: deadline(s)}
}

// rollBack turns all replicas of a creation into tombstones. They delete only
// what carries their uid.
func rollBack(s situation, cause func(replicaState) *record.Failure) decision {
	next := s.fed
	next.Members = slices.Clone(s.fed.Members)
	next.Phase, next.Deadline, next.ChangedAt = record.PhaseRollingBack, nil, record.At(s.now)
	d := decision{name: "roll_back", fed: &next}
	for _, r := range s.replicas {
		m := &next.Members[r.member]
		m.Cause = cause(r)
		m.Rollback = &record.Rollback{State: record.RollbackPending}
		d.put = append(d.put, r.place(tombstone(r.desired, record.CauseRollback)))
	}
	boundSentences(next.Members)
	next.Code = string(CodeReplicaFailed)
	next.Detail = failureDetail(next.Members)
	return d
}

func decideRollingBack(s situation) decision {
	for _, r := range s.replicas {
		if r.desired != nil && !r.settled() {
			return decision{}
		}
	}
	return rolledBack(s)
}

// rolledBack ends a rollback: the name is free. A replica that is not acknowledged keeps
// its tombstone, and with it its place.
func rolledBack(s situation) decision {
	next := s.fed
	next.Members = slices.Clone(s.fed.Members)
	next.Phase, next.ChangedAt = record.PhaseRolledBack, record.At(s.now)
	d := decision{name: "rolled_back", fed: &next, dropName: true, request: s.fed.Request}
	part, all := acknowledged(s.replicas)
	if !all {
		// The rest follows, and then the outcome.
		next.Phase, d = s.fed.Phase, decision{name: "partly_rolled_back", fed: &next}
	}
	for _, r := range s.replicas {
		m := &next.Members[r.member]
		if all && (r.desired != nil || m.Rollback == nil || m.Rollback.State == record.RollbackPending) ||
			slices.ContainsFunc(part, func(p replicaState) bool { return p.at.UID == m.UID }) {
			m.Rollback = r.rollback()
		}
	}
	for _, r := range part {
		d.remove = append(d.remove, r.removal(s))
	}
	boundSentences(next.Members)
	return d
}

// decideReady takes the next step of a federation that stands: of a change that
// waits for votes, of members that leave, and of those that a best-effort
// creation left behind.
func decideReady(s situation) decision {
	var again time.Time
	if s.fed.Change != nil {
		d := decideChange(s)
		if d.name != "" {
			return d
		}
		again = d.again
	}
	if d := decideLeaving(s); d.name != "" {
		return d
	}
	next := s.fed
	next.ChangedAt = record.At(s.now)
	d := decision{name: "join", fed: &next}
	for _, r := range s.replicas {
		if r.desired == nil || r.desired.Intent != record.IntentPrepare {
			continue
		}
		if v := r.vote(); v != nil && v.Answer == record.VoteYes {
			rec := *r.desired
			rec.Intent, rec.Deadline, rec.DeadlineS = record.IntentApply, nil, 0
			d.put = append(d.put, r.place(&rec))
		}
	}
	if len(d.put) == 0 {
		return decision{again: again}
	}
	return d
}

// decideDeleting removes acknowledged tombstones: all at once when nobody is
// away, else those of the reachable clusters, so that a cluster that is gone for
// a month does not hold a name on the others.
func decideDeleting(s situation) decision {
	part, all := acknowledged(slices.Concat(s.replicas, s.leaving))
	left, waiting := 0, 0
	for _, r := range slices.Concat(s.replicas, s.leaving) {
		switch {
		case r.desired == nil, r.acknowledged():
		default:
			left++
			if !r.settled() {
				waiting++
			}
		}
	}
	if left == 0 && all {
		d := decision{name: "deleted", removeFed: true}
		for _, r := range part {
			d.remove = append(d.remove, r.removal(s))
		}
		return d
	}
	if waiting > 0 || len(part) == 0 {
		return decision{}
	}
	next := s.fed
	next.ChangedAt = record.At(s.now)
	d := decision{name: "partly_deleted", fed: &next}
	for _, r := range part {
		d.remove = append(d.remove, r.removal(s))
	}
	return d
}

// decideResult removes late acknowledgements of a result, and then the result.
func decideResult(s situation, l limits) decision {
	next := s.fed
	next.Members = slices.Clone(s.fed.Members)
	d := decision{name: "acknowledged", fed: &next}
	left := slices.ContainsFunc(s.replicas, func(r replicaState) bool { return r.desired != nil && !r.acknowledged() })
	part, _ := acknowledged(s.replicas)
	for _, r := range part {
		next.Members[r.member].Rollback = r.rollback()
		d.remove = append(d.remove, r.removal(s))
	}
	if len(d.remove) > 0 {
		boundSentences(next.Members)
		return d
	}
	switch {
	case left:
		return decision{}
	case s.age < l.keepResult:
		return decision{again: s.now.Add(l.keepResult - s.age)}
	}
	return decision{name: "forgotten", removeFed: true}
}

const (
	// deletedBytes is how much of what remains of replicas one transaction takes. A report
	// names as many buckets as fit into it, so that one alone may be maxDeletedBytes.
	deletedBytes    = 256 << 10
	maxDeletedBytes = 512 << 10
)

// acknowledged are the replicas whose acknowledged tombstones go in one transaction: all of
// them, or as many as have room there, and at least one.
func acknowledged(of []replicaState) (part []replicaState, all bool) {
	size := 0
	for _, r := range of {
		if !r.acknowledged() {
			continue
		}
		size += r.deletedSize()
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
func deadline(s situation) time.Time {
	if s.fed.Deadline == nil {
		return time.Time{}
	}
	return due(s.fed.ChangedAt, *s.fed.Deadline, s.since)
}

func deadlinePassed(s situation) bool {
	return s.fed.Deadline != nil && !s.now.Before(deadline(s))
}

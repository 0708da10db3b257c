package services

import (
	"cmp"
	"context"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/definition"
)

// decide looks at one service and does what needs no write to OSCAR. It says
// whether a write is needed.
func (s *Services) decide(ctx context.Context, name string) (bool, error) {
	defer s.explainSlowness(ctx, name)()
	if err := s.show(ctx, name); err != nil {
		return false, err
	}
	v, err := s.observe(ctx, name)
	if err != nil {
		return false, s.blocked(ctx, v, err)
	}
	if v.desired != nil {
		s.deps.Origins.Watch(v.name, v.desired, v.def, v.observed)
	}
	return s.carryOut(ctx, v, plan(v.situation))
}

// blocked deals with what keeps us from looking at all. That the spec cannot be
// opened will not pass by itself: it is reported, and so is to a vote what keeps us from
// asking OSCAR. Anything else is returned.
func (s *Services) blocked(ctx context.Context, v *observation, err error) error {
	if v == nil || v.desired == nil || v.desired.Tombstone() {
		return err
	}
	if c, known := answers.ConditionOf(err); known {
		if v.desired.Intent == record.IntentPrepare {
			return s.cannotVote(ctx, v, c, err)
		}
		return err // it may pass; reads tell nothing about the service
	}
	var no *refusal
	switch {
	case definition.Unusable(err):
		no = &refusal{record.ReasonInvalidService,
			"the syncer cannot open the definition that it was sent; if its identity file was replaced, create or change the federation again"}
		s.session.Log.Error("spec cannot be opened", "service", v.name, "error", err)
	default:
		return err
	}
	if v.desired.Intent == record.IntentPrepare {
		v.memory = s.process.writes.read(v.name, v.desired, v.revision)
		if plan(v.situation).act != castVote {
			return nil
		}
		return s.cast(ctx, v, no)
	}
	return s.report(ctx, v, finding{phase: record.PhaseFailed, reason: no.reason, message: no.message})
}

// carryOut does what a decision names, unless it is a write: then it says so.
func (s *Services) carryOut(ctx context.Context, v *observation, d decision) (bool, error) {
	switch d.act {
	case rest:
		return false, nil
	case look:
		s.decisions.AddAfter(v.name, d.after)
		return false, s.noteWait(ctx, v, d.until)
	case castVote:
		return false, s.vote(ctx, v)
	case report:
		return false, s.reportDecision(ctx, v, d)
	case reread:
		fresh, err := s.examine(ctx, v.name)
		if err != nil {
			return false, s.blocked(ctx, fresh, err)
		}
		// A fresh situation is never answered with reread.
		return s.carryOut(ctx, fresh, plan(fresh.situation))
	case settle:
		return false, s.settle(ctx, v)
	case acknowledge:
		return false, s.acknowledge(ctx, v, d)
	case count:
		s.deps.Counts.Want(v.name, v.desired.UID)
		return false, nil
	}
	if d.act.writes() {
		return true, s.tellWaiting(ctx, v, d)
	}
	return false, nil
}

// noteWait notes until when nothing is written, unless that is soon.
func (s *Services) noteWait(ctx context.Context, v *observation, until time.Time) error {
	noted := record.At(until.Truncate(time.Second))
	if until.Sub(v.now) < pollJobs || v.observed != nil && v.observed.WaitsUntil != nil && v.observed.WaitsUntil.Equal(noted.Time) {
		return nil
	}
	return s.note(ctx, v, func(next *record.Observed) bool {
		next.WaitsUntil = &noted
		return true
	})
}

// tellWaiting replaces the failure of an earlier repair, and its advice, when the next one
// has to wait for other writes: OSCAR may have mended itself long ago.
func (s *Services) tellWaiting(ctx context.Context, v *observation, d decision) error {
	if !d.repair || v.fresh || v.tellsDrift() || !s.writing.Load() && s.writes.Len() == 0 {
		return nil
	}
	return s.report(ctx, v, finding{phase: record.PhaseDrifted, reason: record.ReasonDrifted, message: d.message})
}

func (s *Services) reportDecision(ctx context.Context, v *observation, d decision) error {
	f := finding{phase: d.phase, reason: d.reason, message: d.message, operation: d.operation, status: d.status, held: d.held}
	if d.phase == record.PhaseReady {
		f.version = v.version
	}
	if d.reason == record.ReasonDriftUnfixable {
		s.process.writes.change(v.name, func(n *recent) { n.unfixable = v.local.hash })
	}
	if err := s.report(ctx, v, f); err != nil {
		return err
	}
	if d.phase == record.PhaseReady {
		s.process.writes.change(v.name, func(n *recent) {
			if n.tried == start || n.tried == stop {
				n.forgive()
			}
			if v.resync { // undisturbed since the last repair
				n.repairs, n.unfixable = 0, ""
			}
		})
	}
	if d.after > 0 {
		s.decisions.AddAfter(v.name, d.after)
	}
	return nil
}

// settle reports that the desired generation is in place, as it was read.
func (s *Services) settle(ctx context.Context, v *observation) error {
	s.session.FailPoints.Hit(failBeforeReady)
	err := s.report(ctx, v, finding{
		phase:    record.PhaseReady,
		reason:   record.ReasonApplied,
		readBack: v.local.hash,
		storage:  v.def.Storage.Mark(),
		version:  v.version,
		made:     s.madeBuckets(v),
		buckets:  v.def.DataBuckets(),
	})
	if err != nil {
		return err
	}
	s.session.FailPoints.Hit(failAfterReady)
	if v.def.Storage != nil {
		s.deps.Origins.LookNow(v.name)
	}
	s.process.writes.change(v.name, func(n *recent) {
		n.forgive()
		n.repaired()
		n.doubted = ""
	})
	return nil
}

// acknowledge reports that a tombstone's service is gone. What was told of its end before a readmission is told again, unless
// it had come back.
func (s *Services) acknowledge(ctx context.Context, v *observation, d decision) error {
	erased := false
	s.process.writes.change(v.name, func(n *recent) { erased = n.erased == v.desired.UID })
	if end := v.desired.End(); end != nil && !erased {
		return s.report(ctx, v, finding{
			phase: record.PhaseDeleted, reason: record.ReasonDeleted, message: cmp.Or(d.message, end.Message), operation: end.Operation,
			made: end.BucketsMade, fates: end.BucketFates, volume: end.VolumeFate, secretLeft: end.SecretLeft,
		})
	}
	f := finding{phase: record.PhaseDeleted, reason: record.ReasonDeleted, message: d.message, secretLeft: v.local.secretAlone}
	switch {
	case v.desired.Keep == record.KeepRelease && v.local.whose == ours:
		f.operation = "release"
	case erased, v.observed.Erased(), v.observed != nil && v.observed.ReadBack != "":
		f.operation = record.OperationDelete
	}
	if v.buckets == nil {
		var err error
		if v.buckets, _, err = s.deps.Answers.Buckets.Get(ctx, v.asOf); err != nil {
			// What was made is then what was last said. The service is gone, and that counts.
			s.session.Log.Warn("buckets of a deleted service are not known", "service", v.name, "error", err)
		}
	}
	if v.buckets != nil {
		f.made = s.madeBuckets(v)
	}
	f.fates, f.volume = s.fates(ctx, v), s.volumeFate(v)
	s.session.FailPoints.Hit(failBeforeDeleted)
	if err := s.report(ctx, v, f); err != nil {
		return err
	}
	s.deletions.Add(1)
	s.session.FailPoints.Hit(failAfterDeleted)
	// Said once: what carries the marks of this life from now on is a copy.
	s.process.writes.change(v.name, func(n *recent) { n.erased = "" })
	return nil
}

// madeBuckets are the buckets that this life's writes made and that still
// stand. One whose tags name another service or owner was made anew by that. Anybody's PUT of
// the service makes a bucket that is missing, without tags: since none stood that was
// not this owner's when the service was voted for, such a one is of this life, too.
func (s *Services) madeBuckets(v *observation) []string {
	made := []string{}
	names := s.notedBuckets(v)
	if v.observed != nil && v.observed.UID == v.desired.UID {
		for _, name := range v.observed.Buckets {
			if b, ok := v.buckets[name]; ok && !b.Tagged() {
				names = definition.Union(names, []string{name})
			}
		}
	}
	for _, name := range names {
		b, ok := v.buckets[name]
		if ok && (!b.Tagged() || definition.SameOwner(b.Owner, v.desired.Owner) && (b.FromService() == "" || b.FromService() == v.name)) {
			made = append(made, name)
		}
	}
	return made
}

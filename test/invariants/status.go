package invariants

import (
	"reflect"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
)

// Promise 10: every status says which generation it speaks of, and ready means that
// the desired generation is applied. Generations never go back, phases go only
// along the edges of the state machine.
func statusStep(c *checker) {
	for _, ch := range c.changes {
		switch ch.ref.Kind {
		case record.KindFederation:
			c.phaseMoves(ch, as[record.Federation](ch.old), as[record.Federation](ch.now))
		case record.KindDesiredService:
			c.generationMoves(ch, as[record.Desired](ch.old), as[record.Desired](ch.now))
		case record.KindObservedService:
			if o := as[record.Observed](ch.now); o != nil {
				c.reportSpeaks(ch, o)
			}
		default:
		}
	}
}

// follows lists the phases that may come after another one; "" stands for a record
// that is not there. A record may be written again without a change of its phase.
func follows(p record.Phase) []record.Phase {
	switch p {
	case "":
		return []record.Phase{record.PhasePreparing}
	case record.PhasePreparing:
		return []record.Phase{record.PhaseApplying, record.PhaseAborted, record.PhaseReady}
	case record.PhaseApplying:
		return []record.Phase{record.PhaseReady, record.PhaseRollingBack}
	case record.PhaseReady:
		return []record.Phase{record.PhaseDeleting}
	case record.PhaseRollingBack:
		return []record.Phase{record.PhaseRolledBack}
	case record.PhaseAborted, record.PhaseRolledBack, record.PhaseDeleting:
		return []record.Phase{""}
	default:
		return nil
	}
}

func (c *checker) phaseMoves(ch *change, old, now *record.Federation) {
	var from, to record.Phase
	if old != nil {
		from = old.Phase
	}
	if now != nil {
		to = now.Phase
	}
	back := from == "" && to == record.PhaseReady && c.comesBack(now)
	adopted := to == "" && c.heirOf(old) != ""
	if from != to && !back && !adopted && !slices.Contains(follows(from), to) {
		c.violatef(RuleStatus, ch.key, "phase %q follows %q", to, from)
	}
	if now == nil {
		return
	}
	if old == nil {
		if now.Generation != 1 && !back {
			c.violatef(RuleStatus, ch.key, "it begins with generation %d", now.Generation)
		}
		return
	}
	switch {
	case now.Generation < old.Generation:
		c.violatef(RuleStatus, ch.key, "generation %d follows %d", now.Generation, old.Generation)
	case now.Generation == old.Generation && !sameGraph(old, now):
		c.violatef(RuleStatus, ch.key, "the graph was changed within generation %d", now.Generation)
	}
	if from == record.PhasePreparing && to == record.PhaseReady && now.Deployment != bestEffort {
		c.violatef(RuleStatus, ch.key, "a %s creation is ready without having been applied", now.Deployment)
	}
	if from == record.PhaseApplying && to == record.PhaseReady && now.Epoch == c.present() {
		c.allReady(ch, now)
	}
}

// allReady: the creation is ready when each replica said so about its desired
// record as it stands.
func (c *checker) allReady(ch *change, f *record.Federation) {
	for _, m := range f.Members {
		if !m.Replica() {
			continue
		}
		at := placeOf(m)
		var reported int64
		if l := c.past.lives[m.UID]; l != nil {
			reported = l.ready
		}
		if revision := c.now(at.desiredKey()).revision(); revision == 0 || revision != reported {
			c.violatef(RuleStatus, ch.key, "it is ready at generation %d; the desired record of %s is of revision %d, and what was reported as ready is of revision %d",
				f.Generation, at, revision, reported)
		}
	}
}

// sameGraph compares what a generation stands for.
func sameGraph(a, b *record.Federation) bool {
	settings := func(f *record.Federation) []any {
		return []any{f.UID, f.Owner, f.GroupID, f.Topology, f.Delegation, f.Deployment, f.Drift, f.ReschedulerThreshold,
			f.Visibility, strings.Join(f.AllowedUsers, " "), f.Prefetch}
	}
	plain := func(f *record.Federation) []record.Member {
		out := slices.Clone(f.Members)
		for i := range out {
			out[i].Cause, out[i].Rollback = nil, nil
		}
		return out
	}
	return slices.Equal(settings(a), settings(b)) && reflect.DeepEqual(plain(a), plain(b))
}

func (c *checker) generationMoves(ch *change, old, now *record.Desired) {
	if now == nil {
		return
	}
	if known := c.past.lives[now.UID].generation; now.Generation < known {
		c.violatef(RuleStatus, ch.key, "generation %d of uid %s follows %d", now.Generation, now.UID, known)
	}
	if old == nil || old.UID != now.UID || old.Generation != now.Generation || old.Tombstone() || now.Tombstone() {
		return
	}
	if old.Spec != now.Spec && !c.madeWhole(ch.ref.Cluster, old, now) || !slices.Equal(old.Sees, now.Sees) {
		c.violatef(RuleStatus, ch.key, "what is desired was changed within generation %d", now.Generation)
	}
}

// reportSpeaks: a report is about the desired record as it stands.
func (c *checker) reportSpeaks(ch *change, o *record.Observed) {
	at := placeOfRef(ch.ref)
	e := c.before(at.desiredKey())
	d := as[record.Desired](e)
	l := c.past.lives[o.UID]
	switch {
	case l == nil || l.place != at:
		c.violatef(RuleStatus, ch.key, "it speaks of uid %s, which was never desired here", o.UID)
		return
	case o.ObservedGeneration > l.generation:
		c.violatef(RuleStatus, ch.key, "it speaks of generation %d of uid %s; the newest desired is %d", o.ObservedGeneration, o.UID, l.generation)
	case o.ObservedGeneration < l.observed:
		c.violatef(RuleStatus, ch.key, "it speaks of generation %d of uid %s, and spoke of %d before", o.ObservedGeneration, o.UID, l.observed)
	}
	if d != nil && d.UID == o.UID && onlyNotes(as[record.Observed](ch.old), o) {
		return // it says nothing new about what is desired
	}
	if d == nil || d.UID != o.UID || o.DesiredRevision != e.revision() {
		c.violatef(RuleStatus, ch.key, "it answers revision %d of uid %s; what is desired has uid %s and revision %d", o.DesiredRevision, o.UID, uidOf(d), e.revision())
		return
	}
	if !answers(o.Phase, d.Intent) {
		c.violatef(RuleStatus, ch.key, "phase %q answers a desired record with intent %s", o.Phase, d.Intent)
	}
	if o.Phase == record.PhaseReady && o.ObservedGeneration != d.Generation {
		c.violatef(RuleStatus, ch.key, "it is ready at generation %d, desired is %d", o.ObservedGeneration, d.Generation)
	}
}

// onlyNotes says that a report is that of before, but for what its syncer notes for itself.
func onlyNotes(old, now *record.Observed) bool {
	if old == nil || reflect.DeepEqual(old, now) {
		return false
	}
	before := *old
	before.Bare, before.PutSent, before.BucketsMade, before.WaitsUntil = now.Bare, now.PutSent, now.BucketsMade, now.WaitsUntil
	return reflect.DeepEqual(&before, now)
}

func uidOf(d *record.Desired) string {
	if d == nil {
		return "(none)"
	}
	return d.UID
}

// answers says which phases a syncer reports about an intent.
func answers(p record.Phase, i record.Intent) bool {
	switch p {
	case record.PhasePending:
		return i != record.IntentDelete // it waits to be asked, or for the end of a pause
	case record.PhasePrepared, record.PhaseRefused:
		return i == record.IntentPrepare
	case record.PhaseReady, record.PhaseDrifted, record.PhaseApplying:
		return i == record.IntentApply
	case record.PhaseDeleted, record.PhaseDeleting:
		return i == record.IntentDelete
	case record.PhaseFailed, record.PhaseHeld, record.PhaseWedged:
		return true
	default:
		return false
	}
}

package syncer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

const (
	// probeTroubled is the pause between probes while something is amiss.
	probeTroubled = 2 * time.Second
	// bucketsShare bounds how much of its time OSCAR spends on lists of buckets for us:
	// they cost it some requests for each bucket.
	bucketsShare = 20
)

// probe asks OSCAR how it is, so that a cluster that cannot be worked with is told
// before anybody tries, and OSCAR's version as it is now.
func (t *term) probe(ctx context.Context) {
	bucketsAt := t.session.Now().Add(t.cfg.ProbeEvery)
	for {
		pause := time.Duration(float64(t.cfg.ProbeEvery) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // spreads load
		if len(t.answers.Health.Troubled()) > 0 {
			pause = min(pause, probeTroubled)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.answers.Trouble:
			// What is new is told at once, and asked about again a little later.
		case <-time.After(pause):
			ops := t.answers.Health.Troubled()
			now := t.session.Now()
			if now.After(bucketsAt) {
				ops = append(ops, manager.OpBuckets)
			}
			t.answers.Ask(ctx, ops)
			if now.After(bucketsAt) {
				bucketsAt = t.session.Now().Add(max(t.cfg.ProbeEvery, bucketsShare*t.session.Now().Sub(now)))
			}
		}
		if err := t.reportCondition(ctx); err != nil && ctx.Err() == nil {
			t.session.Log.Warn("how the cluster stands was not reported", "error", err)
		}
	}
}

// condition is how the cluster stands, and whether it counts as away: something has kept
// us from working on it for as long as a syncer may be silent.
func (t *term) condition(now time.Time) (c answers.Condition, away bool) {
	c, since := t.answers.Health.Standing()
	return c, c.Reason != "" && now.Sub(since) >= t.cfg.AwayAfter
}

// enterCondition writes it into the report of the cluster. self is the registration that
// is served.
func (t *term) enterCondition(report *record.ObservedCluster, self *record.DesiredCluster) {
	c, away := t.condition(t.session.Now())
	switch {
	case c.Reason != "":
	case self != nil && t.session.Restored(self):
		c.Reason = record.ReasonStoreRestored
	case report.OscarVersion != "" && answers.Unsupported(report.OscarVersion):
		c.Reason = record.ReasonUnsupportedVersion
	}
	report.Reason, report.Message, report.Away = c.Reason, c.Message, away
	if info, ok := t.answers.Infos.Newest(); ok {
		report.OscarVersion = info.Version
	}
}

// reportCondition writes how the cluster stands, when that is news. The words alone are
// none: OSCAR's may differ each time.
func (t *term) reportCondition(ctx context.Context) error {
	view := t.session.Mirror.Snapshot()
	self, err := t.session.Serves(view.KV(record.DesiredClusterKey(t.session.ID)))
	if err != nil {
		return err // the term is about to end
	}
	known := &record.ObservedCluster{}
	if kv, ok := view.KV(record.ObservedClusterKey(t.session.ID)); ok {
		if read, err := store.Decode[record.ObservedCluster](kv); err == nil {
			known = read
		}
	}
	next := *known
	t.enterCondition(&next, self)
	if next.Reason == known.Reason && next.Away == known.Away && next.OscarVersion == known.OscarVersion {
		return nil
	}
	return t.writeCluster(ctx, whatWasKnown)
}

// slowVote is after which time without an answer of OSCAR an open vote is explained.
const slowVote = 2 * time.Second

// explainSlowness tells, beside a vote that is open for so long, what it waits for. The
// caller ends it.
func (t *term) explainSlowness(ctx context.Context, name string) (end func()) {
	if d := t.session.Desired(name); d == nil || d.Intent != record.IntentPrepare {
		return func() {}
	}
	done := make(chan struct{})
	timer := time.AfterFunc(slowVote, func() {
		defer close(done)
		op, silent := t.answers.Silent(t.session.Now().Add(-slowVote / 2))
		if !silent {
			return
		}
		t.answers.Health.Failed(op, answers.Hangs(op))
		v, err := t.recall(name)
		if err == nil && v.openVote() {
			err = t.explain(ctx, v, answers.Hangs(op))
		}
		if err != nil && ctx.Err() == nil {
			t.session.Log.Warn("what a vote waits for was not reported", "service", name, "error", err)
		}
	})
	return func() {
		if !timer.Stop() {
			<-done
		}
	}
}

// openVote says that a vote is asked for and not given.
func (v *sight) openVote() bool {
	return v.desired != nil && v.desired.Intent == record.IntentPrepare &&
		(v.observed == nil || v.observed.Vote == nil || v.observed.Vote.Revision != v.revision)
}

// explain reports, beside an open vote, why it cannot be given yet. It is no vote.
func (t *term) explain(ctx context.Context, v *sight, c answers.Condition) error {
	return t.report(ctx, v, finding{phase: record.PhasePending, reason: c.Reason, message: manager.Scrub(c.Message, v.secrets()...), beside: true})
}

// explainAfter is after how many tries in vain, with growing pauses, an open vote is
// explained: about a second and a half.
const explainAfter = 3

// cannotVote deals with a vote that OSCAR keeps us from. What waiting does not mend is a
// no; anything else is told beside the vote, and tried again.
func (t *term) cannotVote(ctx context.Context, v *sight, c answers.Condition, err error) error {
	switch {
	case !v.openVote():
		return err
	case c.Lasting && t.answers.Health.Lasts():
		return t.cast(ctx, v, &refusal{c.Reason, c.Message})
	case t.retries.NumRequeues(v.name) >= explainAfter:
		return errors.Join(err, t.explain(ctx, v, c))
	}
	return err
}

// answersAgain has everything compared that was left while nothing could be done.
func (t *term) answersAgain() {
	t.notes.forgiveSilence()
	t.session.Log.Info("the cluster can be worked on again")
	t.session.Compare.Ring()
}

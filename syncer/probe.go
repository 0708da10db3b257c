package syncer

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

const (
	// probeTroubled is the pause between probes while something is amiss, and
	// probePatience how long an answer is waited for before OSCAR counts as silent.
	probeTroubled = 2 * time.Second
	probePatience = 5 * time.Second
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
		if len(t.health.troubled()) > 0 {
			pause = min(pause, probeTroubled)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.amiss:
			// What is new is told at once, and asked about again a little later.
		case <-time.After(pause):
			ops := t.health.troubled()
			now := t.session.Now()
			if now.After(bucketsAt) {
				ops = append(ops, manager.OpBuckets)
			}
			t.ask(ctx, ops)
			if now.After(bucketsAt) {
				bucketsAt = t.session.Now().Add(max(t.cfg.ProbeEvery, bucketsShare*t.session.Now().Sub(now)))
			}
		}
		if err := t.reportCondition(ctx); err != nil && ctx.Err() == nil {
			t.session.Log.Warn("how the cluster stands was not reported", "error", err)
		}
	}
}

// ask probes OSCAR: who it is, and what else is named. One that is silent is not asked
// more.
func (t *term) ask(ctx context.Context, ops []manager.Op) {
	t.lookAtLease()
	if !asked(ctx, t, manager.OpInfo, t.infos) {
		return
	}
	if slices.Contains(ops, manager.OpList) && !asked(ctx, t, manager.OpList, t.lists) {
		return
	}
	if slices.Contains(ops, manager.OpConfig) && !asked(ctx, t, manager.OpConfig, t.storages) {
		return
	}
	if slices.Contains(ops, manager.OpBuckets) {
		asked(ctx, t, manager.OpBuckets, t.buckets)
	}
}

// asked waits for an answer to a call, as long as a probe does; what it is, health notes.
func asked[T any](ctx context.Context, t *term, op manager.Op, of *shared[T]) bool {
	patient, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	_, _, err := of.get(patient, t.session.Now())
	if patient.Err() != nil && ctx.Err() == nil {
		t.health.failed(op, hangs(op))
	}
	return err == nil
}

// lookAtLease notes whether this OSCAR is ours to write to.
func (t *term) lookAtLease() {
	if t.session.Leads() {
		t.health.answered(opLease)
		return
	}
	t.health.failed(opLease, noLease(t.cfg.Kube.LeaseTrouble()))
}

// condition is how the cluster stands, and whether it counts as away: something has kept
// us from working on it for as long as a syncer may be silent.
func (t *term) condition(now time.Time) (c condition, away bool) {
	c, since := t.health.stands()
	return c, c.reason != "" && now.Sub(since) >= t.cfg.AwayAfter
}

// enterCondition writes it into the report of the cluster. self is the registration that
// is served.
func (t *term) enterCondition(report *record.ObservedCluster, self *record.DesiredCluster) {
	c, away := t.condition(t.session.Now())
	switch {
	case c.reason != "":
	case self != nil && t.session.Restored(self):
		c.reason = record.ReasonStoreRestored
	case report.OscarVersion != "" && unsupported(report.OscarVersion):
		c.reason = record.ReasonUnsupportedVersion
	}
	report.Reason, report.Message, report.Away = c.reason, c.message, away
	if info, ok := t.infos.newest(); ok {
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
		op, silent := t.silent(t.session.Now().Add(-slowVote / 2))
		if !silent {
			return
		}
		t.health.failed(op, hangs(op))
		v, err := t.recall(name)
		if err == nil && v.openVote() {
			err = t.explain(ctx, v, hangs(op))
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

// silent names a call that OSCAR has not answered since then.
func (t *term) silent(since time.Time) (manager.Op, bool) {
	switch {
	case t.lists.unanswered(since):
		return manager.OpList, true
	case t.infos.unanswered(since):
		return manager.OpInfo, true
	case t.buckets.unanswered(since):
		return manager.OpBuckets, true
	}
	return "", false
}

// openVote says that a vote is asked for and not given.
func (v *sight) openVote() bool {
	return v.desired != nil && v.desired.Intent == record.IntentPrepare &&
		(v.observed == nil || v.observed.Vote == nil || v.observed.Vote.Revision != v.revision)
}

// explain reports, beside an open vote, why it cannot be given yet. It is no vote.
func (t *term) explain(ctx context.Context, v *sight, c condition) error {
	return t.report(ctx, v, finding{phase: record.PhasePending, reason: c.reason, message: manager.Scrub(c.message, v.secrets()...), beside: true})
}

// explainAfter is after how many tries in vain, with growing pauses, an open vote is
// explained: about a second and a half.
const explainAfter = 3

// cannotVote deals with a vote that OSCAR keeps us from. What waiting does not mend is a
// no; anything else is told beside the vote, and tried again.
func (t *term) cannotVote(ctx context.Context, v *sight, c condition, err error) error {
	switch {
	case !v.openVote():
		return err
	case c.lasting && t.health.surely():
		return t.cast(ctx, v, &refusal{c.reason, c.message})
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

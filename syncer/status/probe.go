package status

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

const (
	// probeEvery is the pause between probes, with jitter.
	probeEvery = 10 * time.Second
	// probeTroubled is the pause between probes while something is amiss.
	probeTroubled = 2 * time.Second
	// bucketsShare bounds how much of its time OSCAR spends on lists of buckets for us:
	// they cost it some requests for each bucket.
	bucketsShare = 20
)

// probe asks OSCAR how it is, so that a cluster that cannot be worked with is told
// before a user tries, and OSCAR's version as it is now.
func (s *Status) probe(ctx context.Context) {
	bucketsAt := s.session.Now().Add(probeEvery)
	for {
		pause := time.Duration(float64(probeEvery) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // spreads load
		if len(s.answers.Health.Troubled()) > 0 {
			pause = min(pause, probeTroubled)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.answers.Trouble:
			// What is new is told at once, and asked about again a little later.
		case <-time.After(pause):
			ops := s.answers.Health.Troubled()
			now := s.session.Now()
			if now.After(bucketsAt) {
				ops = append(ops, manager.OpBuckets)
			}
			s.answers.Ask(ctx, ops)
			if now.After(bucketsAt) {
				bucketsAt = s.session.Now().Add(max(probeEvery, bucketsShare*s.session.Now().Sub(now)))
			}
		}
		if err := s.reportCondition(ctx); err != nil && ctx.Err() == nil {
			s.session.Log.Warn("how the cluster stands was not reported", "error", err)
		}
	}
}

// condition is how the cluster stands, and whether it counts as away: something has kept
// us from working on it for as long as a syncer may be silent.
func (s *Status) condition(now time.Time) (c answers.Condition, away bool) {
	c, since := s.answers.Health.Standing()
	return c, c.Reason != "" && now.Sub(since) >= s.cfg.AwayAfter
}

// enterCondition writes it into the report of the cluster. self is the registration that
// is served.
func (s *Status) enterCondition(report *record.ObservedCluster, self *record.DesiredCluster) {
	c, away := s.condition(s.session.Now())
	switch {
	case c.Reason != "":
	case self != nil && s.session.Restored(self):
		c.Reason = record.ReasonStoreRestored
	case report.OscarVersion != "" && answers.Unsupported(report.OscarVersion):
		c.Reason = record.ReasonUnsupportedVersion
	}
	report.Reason, report.Message, report.Away = c.Reason, c.Message, away
	if info, ok := s.answers.Infos.Newest(); ok {
		report.OscarVersion = info.Version
	}
}

// reportCondition writes how the cluster stands, when that is news. The words alone are
// none: OSCAR's may differ each time.
func (s *Status) reportCondition(ctx context.Context) error {
	view := s.session.Mirror.Snapshot()
	self, err := s.session.Serves(view.KV(record.DesiredClusterKey(s.session.ID)))
	if err != nil {
		return err // the session is about to end
	}
	known := &record.ObservedCluster{}
	if kv, ok := view.KV(record.ObservedClusterKey(s.session.ID)); ok {
		if read, err := store.Decode[record.ObservedCluster](kv); err == nil {
			known = read
		}
	}
	next := *known
	s.enterCondition(&next, self)
	if next.Reason == known.Reason && next.Away == known.Away && next.OscarVersion == known.OscarVersion {
		return nil
	}
	return s.writeCluster(ctx, whatWasKnown)
}

package services

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// finding is what a report is to say; the rest is carried over.
type finding struct {
	phase   record.Phase
	reason  record.Reason
	message string
	// operation and status tell which call failed.
	operation string
	status    int
	// vote, when set, replaces the vote.
	vote *record.Vote
	// readBack, when set, is the fingerprint to compare with from now on.
	readBack string
	// storage goes with readBack: the mark of the place that it is of.
	storage string
	// version, when set, is of the OSCAR that shows what the fingerprint is of.
	version string
	// made, when not nil, replaces the buckets that this life made.
	made []string
	// held, when set, is what stands and is ahead of the store.
	held *record.Held
	// buckets, when not nil, replaces the buckets that the service names.
	buckets []string
	// fates tell what became of the buckets of a deleted service, and volume of its volume.
	fates  []record.BucketFate
	volume *record.VolumeFate
	// mounts, when not nil, is the volume that the service mounts.
	mounts *record.Volume
	// runState, when set, is how the exposed service was seen.
	runState record.RunState
	// secretLeft goes with a deleted service.
	secretLeft bool
	// remade says that a POST is sent next for a service that has vanished.
	remade bool
	// silent are buckets of inputs without the notification of the service.
	silent []string
	// beside says that it is told beside an open vote: once that is given it is no news.
	beside bool
}

// report writes a finding about the desired record of the observation, if it is news.
// It is written only while the session lives and the desired record is as it
// was; otherwise the error is store.ErrSessionLost or session.ErrStale.
func (s *Services) report(ctx context.Context, v *observation, f finding) error {
	f.mounts, f.runState, f.silent = v.memory.volume, v.local.runState, v.local.silent
	began := s.session.Now()
	result, err := s.writeReport(ctx, v, func(before *record.Observed) *record.Observed {
		if f.beside && before.VoteOn(v.revision) != nil {
			return nil
		}
		return nextReport(before, v.desired, v.revision, v.Epoch, f, s.session.Now())
	})
	if err == nil && result.Written {
		s.process.metrics.reports.WithLabelValues(string(f.phase)).Inc()
		s.cfg.Tracer.Past(v.desired.RequestID, "service "+string(f.phase), began, attribute.String("service", v.name), attribute.Int64("etcd.revision", result.Revision))
		s.session.Log.Info("reported", "service", v.name, "phase", f.phase, "reason", f.reason, "generation", v.desired.Generation, "message", f.message,
			"request_id", v.desired.RequestID)
	}
	return err
}

// writeReport writes what follows the last report; nil is nothing.
func (s *Services) writeReport(ctx context.Context, v *observation, next func(before *record.Observed) *record.Observed) (store.Result, error) {
	desiredKey, observedKey := record.DesiredServiceKey(s.session.ID, v.name), record.ObservedServiceKey(s.session.ID, v.name)
	result, err := s.session.Store.Update(ctx, store.Update{
		Keys: []string{s.session.Lease.Key(), desiredKey, observedKey},
		// Only this session writes our reports, so the mirror knows the last one. Where it does not
		// yet, it will, and the service is looked at again: a full compare reads nothing of what
		// has not changed.
		From: s.session.Mirror.Snapshot().Guess(observedKey), Followed: true,
		Build: func(read store.View, tx *store.Txn) error {
			tx.ExpectSession(s.session.Lease)
			tx.ExpectRevision(desiredKey, v.revision)
			tx.Expect(observedKey)
			var before *record.Observed
			if kv, ok := read.KV(observedKey); ok {
				before = s.session.DecodeObserved(kv, v.desired.UID)
			}
			if after := next(before); after != nil {
				tx.Put(observedKey, after)
			}
			return nil
		},
	})
	if _, conflict := errors.AsType[*store.ConflictError](err); conflict {
		err = fmt.Errorf("%w: %w", session.ErrStale, err)
	}
	return result, err
}

// note changes what the last report notes for the syncer itself, unless change says that it is no news. What the report says
// besides, from which a later syncer concludes what may have been sent, stays. Without a report nothing is noted.
func (s *Services) note(ctx context.Context, v *observation, change func(next *record.Observed) bool) error {
	_, err := s.writeReport(ctx, v, func(before *record.Observed) *record.Observed {
		if before == nil {
			return nil
		}
		next := *before
		if !change(&next) {
			return nil
		}
		return &next
	})
	return err
}

// nextReport is the record that follows before, which is nil for the first
// report about a life. It is equal to before when the finding is no news.
func nextReport(before *record.Observed, d *record.Desired, revision int64, epoch string, f finding, now time.Time) *record.Observed {
	next := &record.Observed{
		V:                  record.Version,
		Phase:              f.phase,
		UID:                d.UID,
		ObservedGeneration: d.Generation,
		DesiredRevision:    revision,
		Vote:               f.vote,
		ReadBack:           f.readBack,
		Storage:            f.storage,
		OscarVersion:       f.version,
		BucketsMade:        definition.Union(f.made),
		Buckets:            f.buckets,
		BucketFates:        f.fates,
		Volume:             f.mounts,
		VolumeFate:         f.volume,
		SecretLeft:         f.secretLeft,
		RunState:           f.runState,
		Reason:             f.reason,
		Operation:          f.operation,
		Status:             f.status,
		Message:            f.message,
		LastTransitionTime: record.At(now),
		Remade:             f.remade,
		Epoch:              epoch,
		Held:               f.held,
		SilentInputs:       f.silent,
	}
	if d.RunState == "" {
		next.RunState = "" // it is of no interest
	}
	if before == nil {
		return next
	}
	if f.made == nil {
		next.BucketsMade = definition.Union(before.BucketsMade)
	}
	if f.buckets == nil {
		next.Buckets = before.Buckets
	}
	if f.runState == "" && d.RunState != "" {
		next.RunState = before.RunState
	}
	if f.mounts == nil {
		next.Volume = before.Volume
	}
	switch {
	case f.phase == record.PhaseDeleted:
		next.SilentInputs = nil
	case f.silent == nil && f.phase != record.PhaseReady:
		next.SilentInputs = before.SilentInputs
	}
	if f.readBack == "" && f.phase != record.PhaseDeleted && f.phase != record.PhaseReady {
		next.Bare, next.PutSent = before.Bare, before.PutSent
	}
	if applied := before.Applied(); f.readBack == "" && applied != 0 {
		next.ReadBack, next.Storage = before.ReadBack, before.Storage
		next.OscarVersion = cmp.Or(f.version, before.OscarVersion)
		if applied != next.ObservedGeneration {
			next.AppliedGeneration = applied
		}
	}
	if next.Storage != "" && next.Storage == before.Storage && f.phase != record.PhaseDeleted {
		next.Inputs = before.Inputs
	}
	if before.Phase == f.phase {
		next.LastTransitionTime = before.LastTransitionTime
	}
	switch old := before.Vote; {
	case f.vote == nil:
		next.Vote = old
	case old != nil && old.Revision == f.vote.Revision && old.Answer == f.vote.Answer:
		next.Vote = old // the delay alone is no news
	}
	return next
}

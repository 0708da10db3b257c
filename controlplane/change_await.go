package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// awaitChange waits for the votes of added members, and then up to wait until
// those who can have applied the change.
func (c *ControlPlane) awaitChange(ctx context.Context, id change, a attempt, wait time.Duration) (*ChangeResult, error) {
	if a.votes {
		if err := c.awaitVotes(ctx, a.uid, id.claim.requestID); err != nil {
			return nil, err
		}
		if err := c.verdict(ctx, a, id.claim); err != nil {
			return nil, err
		}
	}
	return c.awaitApplied(ctx, id, a.uid, wait)
}

// awaitVotes returns once the change of a request waits for votes no more.
func (c *ControlPlane) awaitVotes(ctx context.Context, uid, requestID string) error {
	return c.state.follow(ctx, uid, 0, func(bool) (bool, error) {
		waits := false
		c.state.read(func(v *View) {
			f := v.federations[uid].rec
			waits = f != nil && f.Change != nil && f.Change.RequestID == requestID
		})
		return !waits, nil
	})
}

// verdict says what became of a change that waited for votes: nil when it was
// made, and why it was not otherwise. Others may have changed the federation since.
func (c *ControlPlane) verdict(ctx context.Context, a attempt, q claim) error {
	requestID := q.requestID
	var f record.Federation
	c.state.read(func(v *View) {
		if now := v.federations[a.uid].rec; now != nil {
			f = *now
		}
	})
	switch {
	case f.Phase != record.PhaseReady:
		return deletedMeanwhile()
	case f.Refused != nil && f.Refused.RequestID == requestID:
		return refusedError(&f)
	case f.RequestID == requestID && f.Generation >= a.generation:
		return nil
	}
	// Another instance has gone on before this one has seen the outcome. A request with a
	// key finds it kept; otherwise only the history tells by now whose the generation was.
	if r, err := c.repeated(ctx, q); err != nil {
		return err
	} else if r != nil && r.Answer != nil {
		return r.refusal()
	}
	kv, err := c.store.Get(ctx, record.HistoryKey(a.uid, a.generation))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err == nil {
		h, err := store.Decode[record.History](kv)
		switch {
		case err != nil:
			return err
		case h.RequestID == requestID:
			return nil
		case f.Generation >= a.generation:
			return &Error{Code: CodeConflict, Message: fmt.Sprintf("the change was refused, and federation %q has been changed by another one since; send it again", f.GroupID)}
		}
	}
	return &Error{Code: CodeUnknownOutcome, Message: fmt.Sprintf("federation %q has been changed since, and what became of this change is not kept; GET it", f.GroupID)}
}

// awaitApplied waits up to wait until there is nobody left who is at work on the
// change. Who is away, paused, or has said that he cannot, is not waited for.
func (c *ControlPlane) awaitApplied(ctx context.Context, id change, uid string, wait time.Duration) (res *ChangeResult, err error) {
	err = c.state.follow(ctx, uid, wait, func(over bool) (bool, error) {
		var atWork bool
		var err error
		res, atWork, err = c.changed(id, uid)
		return over || id.wait == 0 || !atWork, err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// again answers a request that was accepted before, as id: with the outcome that
// was kept, once there is one.
func (c *ControlPlane) again(ctx context.Context, id change, r *accepted, wait time.Duration) (*ChangeResult, error) {
	for r.Answer == nil {
		if err := c.awaitVotes(ctx, r.UID, r.RequestID); err != nil {
			return nil, err
		}
		var err error
		if r, err = c.repeated(ctx, id.claim); err != nil {
			return nil, err
		}
		if r == nil {
			return nil, &Error{Code: CodeUnknownOutcome, Message: "the record of this request is not kept any more; GET the federation"}
		}
	}
	if err := r.refusal(); err != nil {
		return nil, err
	}
	kept := r.Answer.Federation
	res, err := c.awaitApplied(ctx, id, r.UID, wait)
	if e, ok := errors.AsType[*Error](err); ok && (e.Code == CodeNotFound || e.Code == CodeConflict) {
		// It was made, and the federation deleted since.
		var fed Federation
		c.state.read(func(v *View) { fed = v.present(kept, r.revision).Federation })
		fed.wasReady()
		res, err = &ChangeResult{Replicas: asSeen(fed, selfOf(fed, id))}, nil
	}
	if err != nil {
		return nil, err
	}
	res.Replayed = r.RequestID != id.claim.requestID
	return res, nil
}

// refusal says why what was accepted was not made, by the outcome that was kept; nil when
// it was.
func (r *accepted) refusal() error {
	kept := r.Answer.Federation
	switch {
	case r.Answer.Phase != record.PhaseReady:
		return deletedMeanwhile()
	case kept.Refused != nil && kept.Refused.RequestID == r.RequestID:
		return refusedError(kept)
	}
	return nil
}

func deletedMeanwhile() error {
	return &Error{Code: CodeConflict, Message: "the federation was deleted meanwhile"}
}

func refusedError(f *record.Federation) error {
	r := f.Refused
	failed := &FailedCreate{GroupID: f.GroupID, Phase: record.PhaseAborted, Rollback: record.RollbackNotNeeded}
	for _, m := range r.Members {
		if m.Coordinator {
			failed.Service = m.ServiceName
		}
		if m.Replica() {
			failed.Replicas = append(failed.Replicas, FailedReplica{
				Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName, Cause: m.Cause, Rollback: *m.Rollback,
			})
		}
	}
	return &Error{Code: Code(r.Code), Message: r.Detail, Failed: failed}
}

// changed is the federation after a change, as the addressed replica or else its
// coordinator sees it. atWork says that somebody is about to apply it, or, when a
// removal is asked for, to go.
func (c *ControlPlane) changed(id change, uid string) (res *ChangeResult, atWork bool, err error) {
	var fed Federation
	leaving, found := false, false
	c.state.read(func(v *View) {
		f, ok := v.federations[uid]
		if !ok {
			return
		}
		found, fed = true, v.present(f.rec, f.rev).Federation
		if id.removes {
			leaving = slices.ContainsFunc(v.situation(f.rec).leaving, func(r replicaState) bool {
				return r.desired != nil && (!r.settled() || r.acknowledged())
			})
		}
	})
	switch {
	case !found:
		return nil, false, notFound(fmt.Sprintf("there is no service %q", id.service))
	case fed.Phase == record.PhaseDeleting:
		return nil, false, deletedMeanwhile()
	}
	res, atWork = &ChangeResult{Replicas: asSeen(fed, selfOf(fed, id))}, leaving
	for _, m := range fed.Members {
		st := m.Status
		if st == nil || st.Phase == record.PhaseReady && st.ObservedGeneration >= fed.Generation {
			continue
		}
		res.Away = append(res.Away, m)
		atWork = atWork || st.atWork(fed.Generation)
	}
	return res, atWork, nil
}

// atWork says whether a replica that has not applied a generation is about to:
// its syncer is there, is not paused, and has not said that it cannot.
func (st *Status) atWork(generation int64) bool {
	switch st.Phase {
	case record.PhaseUnreachable, record.PhaseRefused:
		return false
	case record.PhasePending:
		return st.Reason != record.ReasonPaused
	case record.PhaseFailed, record.PhaseHeld, record.PhaseWedged, record.PhaseDrifted:
		return st.ObservedGeneration < generation
	}
	return true
}

// selfOf is the index of the replica that a change was addressed to, or of the
// coordinator.
func selfOf(fed Federation, id change) int {
	self := slices.IndexFunc(fed.Members, func(m Replica) bool {
		return m.ServiceName == id.service && (id.clusterID == "" || m.ClusterID == id.clusterID)
	})
	if self < 0 {
		self = slices.IndexFunc(fed.Members, func(m Replica) bool { return m.Coordinator })
	}
	return self
}

package federations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// awaitChange waits for the votes of added members, and then up to wait until all reachable
// replicas have applied the change.
func (c *Controller) awaitChange(ctx context.Context, ch Change, a attempt, wait time.Duration) (*ChangeResult, error) {
	if a.votes {
		if err := c.awaitVotes(ctx, a.UID, ch.Claim.RequestID); err != nil {
			return nil, err
		}
		if err := c.verdict(ctx, a, ch.Claim); err != nil {
			return nil, err
		}
	}
	return c.awaitApplied(ctx, ch, a.UID, wait)
}

// awaitVotes returns when the change of a request no longer waits for votes.
func (c *Controller) awaitVotes(ctx context.Context, uid, requestID string) error {
	return c.state.Follow(ctx, uid, 0, func(bool) (bool, error) {
		waits := false
		c.state.Read(func(v *view.View) {
			f := v.Federations.Get(uid).Rec
			waits = f != nil && f.Change != nil && f.Change.RequestID == requestID
		})
		return !waits, nil
	})
}

// verdict is the outcome of a change that waited for votes: nil when it was made, and otherwise
// the cause. Other changes may have followed since.
func (c *Controller) verdict(ctx context.Context, a attempt, q request.Claim) error {
	requestID := q.RequestID
	var f record.Federation
	c.state.Read(func(v *view.View) {
		if now := v.Federations.Get(a.UID).Rec; now != nil {
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
	// Another instance took further steps before this one saw the outcome. The outcome of a
	// request with a key is kept; without a key only the history tells whose the generation
	// was.
	if r, err := c.requests.Repeated(ctx, q); err != nil {
		return err
	} else if r != nil && r.Answer != nil {
		return refusal(r)
	}
	kv, err := c.store.Get(ctx, record.HistoryKey(a.UID, a.generation))
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
			return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("the change was refused, and federation %q has been changed by another one since; send it again", f.GroupID)}
		}
	}
	return &fault.Error{Code: fault.CodeUnknownOutcome, Message: fmt.Sprintf("federation %q has been changed since, and what became of this change is not kept; GET it", f.GroupID)}
}

// awaitApplied waits up to wait until no replica is still at work on the change. It does not
// wait for a replica that is away or stopped, or that has reported that it cannot.
func (c *Controller) awaitApplied(ctx context.Context, ch Change, uid string, wait time.Duration) (res *ChangeResult, err error) {
	err = c.state.Follow(ctx, uid, wait, func(over bool) (bool, error) {
		var atWork bool
		var err error
		res, atWork, err = c.changed(ch, uid)
		return over || ch.Wait == 0 || !atWork, err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// again answers a change that was accepted before with the outcome that was kept, once
// there is one.
func (c *Controller) again(ctx context.Context, ch Change, r *request.Accepted, wait time.Duration) (*ChangeResult, error) {
	for r.Answer == nil {
		if err := c.awaitVotes(ctx, r.UID, r.RequestID); err != nil {
			return nil, err
		}
		var err error
		if r, err = c.requests.Repeated(ctx, ch.Claim); err != nil {
			return nil, err
		}
		if r == nil {
			return nil, &fault.Error{Code: fault.CodeUnknownOutcome, Message: "the record of this request is not kept any more; GET the federation"}
		}
	}
	if err := refusal(r); err != nil {
		return nil, err
	}
	kept := r.Answer.Federation
	res, err := c.awaitApplied(ctx, ch, r.UID, wait)
	if e, ok := errors.AsType[*fault.Error](err); ok && (e.Code == fault.CodeNotFound || e.Code == fault.CodeConflict) {
		// It was made, and the federation deleted since.
		var fed view.Federation
		c.state.Read(func(v *view.View) { fed = v.Show(kept, r.Revision).Federation })
		fed.WasReady()
		res, err = &ChangeResult{Replicas: view.AsSeen(fed, selfOf(fed, ch))}, nil
	}
	if err != nil {
		return nil, err
	}
	res.Replayed = r.RequestID != ch.Claim.RequestID
	return res, nil
}

// refusal says, from the kept outcome, why an accepted change was not made; nil when it was.
func refusal(r *request.Accepted) error {
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
	return &fault.Error{Code: fault.CodeConflict, Message: "the federation was deleted meanwhile"}
}

func refusedError(f *record.Federation) error {
	r := f.Refused
	failed := &fault.FailedCreate{GroupID: f.GroupID, Phase: record.PhaseAborted}
	failed.Failed = v1.Failed{Rollback: string(record.RollbackNotNeeded), Replicas: []v1.FailedReplica{}}
	for _, m := range r.Members {
		if m.Coordinator {
			failed.Service = m.ServiceName
		}
		if m.Replica() {
			failed.Replicas = append(failed.Replicas, view.FailedReplica(m))
		}
	}
	return &fault.Error{Code: fault.Code(r.Code), Message: r.Detail, Failed: failed}
}

// changed is the federation after a change, as the addressed replica or else its coordinator
// sees it. atWork says that a replica is about to apply the change or, when a removal was asked
// for, to leave.
func (c *Controller) changed(ch Change, uid string) (res *ChangeResult, atWork bool, err error) {
	var fed view.Federation
	leaving, found := false, false
	c.state.Read(func(v *view.View) {
		f, ok := v.Federations.Lookup(uid)
		if !ok {
			return
		}
		found, fed = true, v.Show(f.Rec, f.Rev).Federation
		if ch.removal.only {
			leaving = slices.ContainsFunc(v.Situation(f.Rec).Leaving, func(r view.ReplicaState) bool {
				return r.Desired != nil && (!r.Settled() || r.Acknowledged())
			})
		}
	})
	switch {
	case !found:
		return nil, false, view.NoService(ch.Service, "")
	case fed.Phase == record.PhaseDeleting:
		return nil, false, deletedMeanwhile()
	}
	res, atWork = &ChangeResult{Replicas: view.AsSeen(fed, selfOf(fed, ch))}, leaving
	for _, m := range fed.Members {
		st := m.Status
		if st == nil || st.Phase == record.PhaseReady && st.ObservedGeneration >= fed.Generation {
			continue
		}
		res.Away = append(res.Away, m)
		atWork = atWork || aboutToApply(st, fed.Generation)
	}
	return res, atWork, nil
}

// aboutToApply says whether a replica that has not applied a generation is about to: its syncer
// is connected, writes to its OSCAR, and has not reported that it cannot.
func aboutToApply(st *view.Status, generation int64) bool {
	switch st.Phase {
	case record.PhaseUnreachable, record.PhaseRefused:
		return false
	case record.PhasePending:
		return st.Reason != record.ReasonPaused && st.Reason != record.ReasonSameOscar
	case record.PhaseFailed, record.PhaseHeld, record.PhaseWedged, record.PhaseDrifted:
		return st.ObservedGeneration < generation
	}
	return true
}

// selfOf is the index of the replica that a change was addressed to, or of the
// coordinator.
func selfOf(fed view.Federation, ch Change) int {
	self := slices.IndexFunc(fed.Members, func(m view.Replica) bool {
		return m.ServiceName == ch.Service && (ch.ClusterID == "" || m.ClusterID == ch.ClusterID)
	})
	if self < 0 {
		self = slices.IndexFunc(fed.Members, func(m view.Replica) bool { return m.Coordinator })
	}
	return self
}

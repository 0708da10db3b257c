package controlplane

import (
	"context"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// follow calls look now and after every change of a federation, until it is done or
// fails. When wait has passed look is called once more, with over; who is not done
// then goes on until ctx ends. What is waited for was accepted: an end of ctx is
// store.ErrUnknownOutcome.
func (s *state) follow(ctx context.Context, uid string, wait time.Duration, look func(over bool) (done bool, err error)) error {
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	w := s.waiters.add(subject{federation: uid})
	defer w.drop()
	over := false
	for {
		if done, err := look(over); err != nil || done {
			return err
		}
		select {
		case <-w.wake:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return fmt.Errorf("%w: it was accepted: %w", store.ErrUnknownOutcome, context.Cause(ctx))
		}
	}
}

// await waits for the outcome of a creation, for as long as wait. With async it
// answers at once with what is known.
func (c *ControlPlane) await(ctx context.Context, uid string, wait time.Duration, async bool) (res *CreateResult, err error) {
	err = c.state.follow(ctx, uid, wait, func(over bool) (bool, error) {
		var err error
		if res, err = c.outcome(uid); err != nil || res.Done || async {
			return true, err
		}
		if over {
			res, err = c.unfinished(uid)
		}
		return over, err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// outcome says what is known of a creation now: Done with phase ready, an error
// for one that failed, or neither.
func (c *ControlPlane) outcome(uid string) (*CreateResult, error) {
	fed, ok := c.federation(uid)
	if !ok {
		return nil, &Error{Code: CodeNotFound, Message: "the federation was deleted meanwhile"}
	}
	switch fed.Phase {
	case record.PhaseAborted, record.PhaseRolledBack:
		return nil, &Error{Code: Code(fed.code), Message: fed.detail, Failed: fed.Failed, RetryAfter: fed.retryAfter}
	case record.PhaseDeleting:
		return nil, &Error{Code: CodeConflict, Message: "the federation was deleted meanwhile"}
	case record.PhasePreparing, record.PhaseApplying, record.PhaseRollingBack:
		return &CreateResult{Federation: fed.Federation}, nil
	case record.PhaseReady, record.PhaseDegraded, record.PhaseChanging:
		if fed.strange != "" {
			return nil, newerVersion(fmt.Sprintf("federation %q", fed.GroupID), fed.strange)
		}
	default:
		return nil, newerVersion(fmt.Sprintf("federation %q", fed.GroupID), fmt.Sprintf("phase %q", fed.Phase))
	}
	res := &CreateResult{Federation: fed.Federation, Done: true}
	if fed.Deployment == oscar.DeploymentBestEffort {
		for _, m := range fed.Members {
			if m.Status != nil && m.Status.Phase != record.PhaseReady {
				res.Away = append(res.Away, m)
				// What is only slow is waited for; who said no or is away is not.
				res.Done = res.Done && m.Status.Phase != record.PhaseApplying
			}
		}
	}
	return res, nil
}

// unfinished is the answer when the wait ends before the outcome. A rollback that
// has begun is a failure already, whatever becomes of it.
func (c *ControlPlane) unfinished(uid string) (*CreateResult, error) {
	fed, ok := c.federation(uid)
	if ok && fed.Phase == record.PhaseRollingBack {
		return nil, &Error{Code: Code(fed.code), Message: fed.detail, Failed: fed.Failed}
	}
	if ok && fed.Phase != record.PhasePreparing && fed.Phase != record.PhaseApplying {
		res, err := c.outcome(uid)
		if err == nil {
			res.Done = true
		}
		return res, err
	}
	location := ""
	if ok {
		for _, m := range fed.Members {
			if m.Coordinator {
				location = "/system/replicas/" + m.ServiceName
			}
		}
	}
	return nil, &Error{
		Code: CodeUnknownOutcome, Location: location,
		Message: fmt.Sprintf("the creation is still in progress; it goes on, and %s shows how it ends", location),
	}
}

// replay answers a repeated request from the record of the first, which was last
// written with its outcome, at rev.
func (c *ControlPlane) replay(r *record.Request, rev int64) (*CreateResult, error) {
	kept := r.Answer.Federation
	if r.Answer.Phase.Result() && kept != nil {
		return nil, failedError(kept)
	}
	res := &CreateResult{Replayed: true, Done: true}
	if fed, ok := c.federation(r.UID); ok {
		res.Federation = fed.Federation
		return res, nil
	}
	if kept != nil {
		c.state.read(func(v *View) { res.Federation = v.present(kept, rev).Federation })
		res.Federation.wasReady()
	}
	return res, nil
}

// wasReady shows a federation that is gone as it was when its creation was done.
func (f *Federation) wasReady() {
	if f.Deployment == oscar.DeploymentBestEffort {
		return // who was ready then is not known
	}
	f.Phase = record.PhaseReady
	for _, m := range f.Members {
		if m.Status != nil {
			*m.Status = Status{Phase: record.PhaseReady, ObservedGeneration: f.Generation, Reason: record.ReasonApplied, LastTransitionTime: f.ChangedAt}
		}
	}
}

// failedError is the error of a creation that failed, from its record.
func failedError(f *record.Federation) *Error {
	return &Error{
		Code: Code(f.Code), Message: f.Detail, Failed: failedCreate(f),
		RetryAfter: time.Duration(f.RetryAfter) * time.Second,
	}
}

// failedCreate is nil unless the creation failed.
func failedCreate(f *record.Federation) *FailedCreate {
	if !f.Phase.Result() && f.Phase != record.PhaseRollingBack {
		return nil
	}
	out := &FailedCreate{GroupID: f.GroupID, Phase: f.Phase, Rollback: record.RollbackComplete}
	if c := f.Coordinator(); c != nil {
		out.Service = c.ServiceName
	}
	for _, m := range f.Members {
		if !m.Replica() {
			continue
		}
		r := FailedReplica{Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName, Cause: m.Cause}
		if m.Rollback != nil {
			r.Rollback = *m.Rollback
		}
		switch r.Rollback.State {
		case record.RollbackFailed:
			out.Rollback = record.RollbackFailed
		case record.RollbackPending:
			if out.Rollback != record.RollbackFailed {
				out.Rollback = record.RollbackPending
			}
		}
		out.Replicas = append(out.Replicas, r)
	}
	if f.Phase == record.PhaseAborted {
		out.Rollback = record.RollbackNotNeeded
	}
	return out
}

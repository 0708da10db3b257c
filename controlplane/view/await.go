package view

import (
	"context"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Follow calls look now and after every change of a federation, until it is done or
// fails. When wait has passed look is called once more, with over; who is not done
// then goes on until ctx ends. What is waited for was accepted: an end of ctx is
// store.ErrUnknownOutcome.
func (s *State) Follow(ctx context.Context, uid string, wait time.Duration, look func(over bool) (done bool, err error)) error {
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	w := s.Waiters.Add(Subject{federation: uid})
	defer w.Drop()
	over := false
	for {
		if done, err := look(over); err != nil || done {
			return err
		}
		select {
		case <-w.Wake:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return fmt.Errorf("%w: it was accepted: %w", store.ErrUnknownOutcome, context.Cause(ctx))
		}
	}
}

// WasReady shows a federation that is gone as it was when its creation was done.
func (f *Federation) WasReady() {
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

// FailedError is the error of a creation that failed, from its record.
func FailedError(f *record.Federation) *fault.Error {
	return &fault.Error{
		Code: fault.Code(f.Code), Message: f.Detail, Failed: failedCreate(f),
		RetryAfter: time.Duration(f.RetryAfter) * time.Second,
	}
}

// failedCreate is nil unless the creation failed.
func failedCreate(f *record.Federation) *fault.FailedCreate {
	if !f.Phase.Result() && f.Phase != record.PhaseRollingBack {
		return nil
	}
	out := &fault.FailedCreate{GroupID: f.GroupID, Phase: f.Phase, Rollback: record.RollbackComplete}
	if c := f.Coordinator(); c != nil {
		out.Service = c.ServiceName
	}
	for _, m := range f.Members {
		if !m.Replica() {
			continue
		}
		r := fault.FailedReplica{Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName, Cause: m.Cause}
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

package services

import (
	"context"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// OSCAR keeps outside the definition whether an exposed service is stopped, and shows it only in
// the state of its deployment. A PUT of a stopped service starts it, answers 500, and keeps the old
// definition (v4.1): so it is started before a PUT, and stopped again after. What was never ordered
// to be started or stopped is otherwise left as it is.

// States of deployments, in OSCAR's words.
const (
	deploymentStopped     = "stopped"
	deploymentUnavailable = "unavailable"
)

// observeRunState asks OSCAR whether an exposed service runs, where that is ordered, or where a
// PUT may follow.
func (s *Services) observeRunState(ctx context.Context, v *observation) error {
	ordered := v.desired.RunState != "" && v.desired.Intent == record.IntentApply
	if v.local.whose != ours || v.local.half || !v.local.exposed || !ordered && !v.fresh {
		return nil
	}
	state, err := s.deps.OSCAR.Deployment(ctx, v.name)
	switch {
	case err != nil:
		return fmt.Errorf("service %q: %w", v.name, err)
	case state == deploymentStopped:
		v.local.runState = record.RunStopped
	case state != deploymentUnavailable:
		v.local.runState = record.RunStarted
	}
	return nil
}

// setRunState starts or stops the service.
func (s *Services) setRunState(ctx context.Context, v *observation, d decision) (bool, error) {
	if err := s.fence(v); err != nil {
		return false, err
	}
	if d.repair {
		s.process.writes.change(v.name, (*recent).beginRepair)
	}
	send := s.deps.OSCAR.Start
	if d.act == stop {
		send = s.deps.OSCAR.Stop
	}
	err := s.call(ctx, v, d.act, func(ctx context.Context, timeout time.Duration) error { return send(ctx, v.name, timeout) })
	if err == nil {
		s.process.writes.change(v.name, (*recent).repaired)
	}
	return err == nil, s.noteFailure(v, d.act, record.ReasonUpdateFailed, err)
}

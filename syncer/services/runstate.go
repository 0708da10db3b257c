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

// runsOtherwise says that the service runs and is to be stopped, or the other way round.
func (s situation) runsOtherwise() bool {
	return s.desired.RunState != "" && s.local.exposed && s.local.runState != s.desired.RunState
}

// startFirst starts a service that is stopped, before a PUT.
func (s situation) startFirst() (decision, bool) {
	if s.local.runState != record.RunStopped {
		return decision{}, false
	}
	if d, wait := s.backOff(start); wait {
		return d, true
	}
	return decision{act: start}, true
}

// planRunState: the definition is in place, and the service runs otherwise than it was ordered.
func planRunState(s situation) decision {
	step, what := start, "the service was stopped on the cluster"
	if s.desired.RunState == record.RunStopped {
		step, what = stop, "the service was started on the cluster"
	}
	if !s.applied() || s.observed.RunState != s.desired.RunState { // a new order
		if s.stopped || s.desired.Paused {
			return decision{act: rest} // pending until the pause ends
		}
		if d, wait := s.backOff(step); wait {
			return d
		}
		return decision{act: step}
	}
	return repairBy(s, step, what)
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
	s.process.writes.change(v.name, func(n *recent) {
		n.written = s.session.Now()
		if err == nil {
			n.repaired()
		}
	})
	return err == nil, s.noteFailure(v, d.act, record.ReasonUpdateFailed, err)
}

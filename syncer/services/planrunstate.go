package services

import "github.com/oscarfed/oscarfed/store/record"

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
		if s.Stopped || s.desired.Paused {
			return decision{act: rest} // pending until the pause ends
		}
		if d, wait := s.backOff(step); wait {
			return d
		}
		return decision{act: step}
	}
	return repairBy(s, step, what)
}

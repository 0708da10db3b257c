package services

import (
	"fmt"

	"github.com/oscarfed/oscarfed/store/record"
)

// ahead says whether a service that is ours, of a generation of its marks' epoch, was
// written in a history that the store does not have.
func (s situation) ahead(generation int64) bool {
	return !s.desired.Covers(s.local.epoch, generation)
}

// unmarked says that a user's PUT has dropped our marks from a service that was not
// seen undisturbed since the store was restored: what was desired of it last is not
// known any more.
func (s situation) unmarked() bool {
	if s.local.generation != 0 || s.desired.Epoch == s.Epoch {
		return false
	}
	if o := s.observed; o != nil {
		return s.local.hash != o.ReadBack && (o.Epoch != s.Epoch || o.Held != nil)
	}
	return true
}

// lost says that a service is absent which stood when the store was last in its
// present history: it may have been deleted, in order, in the one that was lost. It
// stays so until a person orders it to be made again.
func (s situation) lost() bool {
	o := s.observed
	switch {
	case s.desired.Again:
		return false
	case o == nil:
		// Added or changed before the restore; a creation that was never reported goes on.
		return s.desired.Epoch != s.Epoch && s.desired.Generation > 1
	case o.Phase == record.PhaseHeld && o.Held != nil:
		return true
	case o.Epoch == s.Epoch:
		return false
	}
	switch o.Phase {
	case record.PhaseReady, record.PhaseDrifted, record.PhaseHeld, record.PhaseWedged:
		return true
	default:
		return o.ReadBack != "" || s.desired.Generation > 1 && s.desired.Epoch != s.Epoch
	}
}

const resolveHint = "it is not changed: oscarfed describe lists what differs, oscarfed resolve ends it"

func heldAhead(s situation, generation int64) decision {
	what := fmt.Sprintf("the service has generation %d, and %d is desired", generation, s.desired.Generation)
	switch {
	case s.desired.Tombstone():
		what = fmt.Sprintf("the service has generation %d, and the deletion was ordered of %d", generation, s.desired.Generation)
	case generation == 0:
		what = "the service was changed and its marks were dropped"
	case generation <= s.desired.Generation:
		what = fmt.Sprintf("the service has a generation %d that is not the one which the store knows", generation)
	}
	d := held(record.ReasonAheadOfDesired, what+"; the store was restored from an older state; "+resolveHint)
	d.held = &record.Held{Kind: record.HeldAhead, Epoch: s.local.epoch, Generation: generation}
	return d
}

func heldMissing() decision {
	d := held(record.ReasonAheadOfDesired,
		"the service was applied and is gone; the store was restored from an older state, so it may have been deleted in order; it is not made again: oscarfed describe lists what differs, oscarfed resolve ends it")
	d.held = &record.Held{Kind: record.HeldMissing}
	return d
}

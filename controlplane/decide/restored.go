package decide

import (
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// A creation that was under way when the backup was made may have had any outcome in the lost
// history: its services may be in use. Deadlines from before the restore decide nothing about
// it.

// askAgain repeats the vote once every cluster has compared in the present epoch. Before that
// no syncer could answer, and the deadline would only measure how fast syncers reconnect. An
// existing service of this life counts as a yes. A service that is ahead counts as a no: then
// it is held, and a person decides.
func askAgain(s view.Situation, l Limits) Decision {
	if slices.ContainsFunc(s.Replicas, func(r view.ReplicaState) bool { return !r.Compared || r.Desired == nil }) {
		return Decision{}
	}
	next := s.Fed
	until := record.At(s.Now.Add(l.PrepareDeadline))
	next.Asked, next.Deadline, next.ChangedAt = s.Epoch, &until, record.At(s.Now)
	d := Decision{Step: StepAskAgain, Fed: &next}
	for _, r := range s.Replicas {
		rec := *r.Desired
		rec.Deadline, rec.DeadlineS = &until, 0
		d.Put = append(d.Put, PlacedAt(r, &rec))
	}
	return d
}

// acceptApplied ends a creation and never rolls it back: a failed replica degrades the
// federation, since the others may be in use. It waits until every replica has an outcome. The
// owner may delete the federation at any time.
func acceptApplied(s view.Situation) Decision {
	for _, r := range s.Replicas {
		if !r.Reported(record.PhaseReady) && !r.Reported(record.PhaseDrifted) && !r.DefinitelyFailed() {
			return Decision{}
		}
	}
	next := s.Fed
	next.Phase, next.Deadline, next.ChangedAt = record.PhaseReady, nil, record.At(s.Now)
	return Decision{Step: StepAccept, Fed: &next, Request: s.Fed.Request}
}

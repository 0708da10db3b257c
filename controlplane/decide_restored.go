package controlplane

import (
	"slices"

	"github.com/oscarfed/oscarfed/store/record"
)

// A creation that was under way when the backup was made may have had any outcome in
// the history that was lost: its services may be in use. The clocks of those days
// decide nothing about it.

// askAgain begins the vote anew, once every cluster has compared in the present
// epoch: before that there is nobody who could answer, and a deadline would be one
// for syncers to reconnect. A service of this life that stands counts as a yes, one
// that is ahead as a no: then it is held, and a person decides.
func askAgain(s situation, l limits) decision {
	if slices.ContainsFunc(s.replicas, func(r replicaState) bool { return !r.compared || r.desired == nil }) {
		return decision{}
	}
	next := s.fed
	until := record.At(s.now.Add(l.prepareDeadline))
	next.Asked, next.Deadline, next.ChangedAt = s.epoch, &until, record.At(s.now)
	d := decision{name: "ask_again", fed: &next}
	for _, r := range s.replicas {
		rec := *r.desired
		rec.Deadline, rec.DeadlineS = &until, 0
		d.put = append(d.put, r.place(&rec))
	}
	return d
}

// acceptApplied ends a creation without ever rolling it back: what fails is degraded,
// since the others may be in use. It waits until every replica has an outcome; its
// owner may delete it at any time.
func acceptApplied(s situation) decision {
	for _, r := range s.replicas {
		if !r.reported(record.PhaseReady) && !r.reported(record.PhaseDrifted) && !r.definitelyFailed() {
			return decision{}
		}
	}
	next := s.fed
	next.Phase, next.Deadline, next.ChangedAt = record.PhaseReady, nil, record.At(s.now)
	return decision{name: "accept", fed: &next, request: s.fed.Request}
}

package decide

import (
	"cmp"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// Deletion makes a tombstone of every replica and frees the name.
func Deletion(s view.Situation, opts DeletionOrders) Decision {
	next := s.Fed
	next.Phase, next.Deadline, next.ChangedAt = record.PhaseDeleting, nil, record.At(s.Now)
	next.Members, next.Change = slices.Clone(s.Fed.Members), nil
	d := Decision{Step: StepDelete, Fed: &next, DropName: true}
	if s.Fed.Change != nil {
		d = dropChange(s, d)
		d.Request = s.Fed.Change.Request
	}
	for _, r := range s.Replicas {
		if r.Desired == nil {
			continue
		}
		t := tombstoneFor(s, r, record.CauseDeleted, opts.RequestID)
		t.Data, t.Jobs = opts.Data, opts.Jobs
		if r.Desired.Intent == record.IntentPrepare {
			// Never applied: nothing can be there.
			d.Remove = append(d.Remove, removalOf(r, s))
			continue
		}
		d.Put = append(d.Put, PlacedAt(r, t))
	}
	return d
}

// AmendDeletion changes the orders of a deletion under way, for example to end jobs that delay
// it.
func AmendDeletion(s view.Situation, opts DeletionOrders) Decision {
	next := s.Fed
	next.ChangedAt = record.At(s.Now)
	d := Decision{Step: StepHurry, Fed: &next}
	for _, r := range slices.Concat(s.Replicas, s.Leaving) {
		if r.Desired == nil || r.Acknowledged() {
			continue
		}
		t := *r.Desired
		t.Data, t.Jobs = cmp.Or(opts.Data, t.Data), cmp.Or(opts.Jobs, t.Jobs)
		if t.Data == r.Desired.Data && t.Jobs == r.Desired.Jobs {
			continue
		}
		t.RequestID = opts.RequestID
		d.Put = append(d.Put, PlacedAt(r, &t))
	}
	return d
}

package view

import (
	"github.com/oscarfed/oscarfed/store/record"
)

// Held is what the syncer has reported as held and what nobody has decided about
// since; nil for nothing.
func (r ReplicaState) Held() *record.Held {
	o := r.Observed
	if r.Desired == nil || o == nil || o.UID != r.Desired.UID || o.Phase != record.PhaseHeld || o.Held == nil {
		return nil
	}
	decided := r.Desired.Covers(o.Held.Epoch, o.Held.Generation)
	switch {
	case o.Held.Kind == record.HeldMissing:
		decided = r.Desired.Again || r.Desired.Tombstone()
	case o.Held.Generation == 0:
		decided = r.Desired.Epoch == o.Epoch
	}
	if decided {
		return nil
	}
	return o.Held
}

// HeldReplicas names those replicas of a federation that are held, for a change that would
// write over them or make them again.
func (v *View) HeldReplicas(f *record.Federation) []string {
	var out []string
	for _, r := range v.Situation(f).Replicas {
		if r.Held() != nil {
			out = append(out, r.At.ClusterID+"/"+r.At.ServiceName)
		}
	}
	return out
}

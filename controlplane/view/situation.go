package view

import (
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// Situation is one federation with everything that a decision about it needs, at one revision
// of the store.
type Situation struct {
	Fed      record.Federation
	Replicas []ReplicaState
	// Adding lists the replicas that a change waits for. Leaving lists the replicas whose
	// tombstones are not acknowledged yet.
	Adding, Leaving []ReplicaState
	// Removing has the clusters of the federation that are being removed.
	Removing map[string]*record.Removal
	Now      time.Time
	// Age is the age of the federation's record, by the time that all instances agree on.
	Age time.Duration
	// Since is when this instance first saw the federation's present deadline, and ChangeSince
	// the same for its change. Zero means the time at which it was written.
	Since, ChangeSince time.Time
	// Epoch is the present epoch, as records name it.
	Epoch string
}

// Situation is one federation with its replicas, as the view has them.
func (v *View) Situation(f *record.Federation) Situation {
	out := Situation{Fed: *f, Removing: map[string]*record.Removal{}, Epoch: v.Epoch()}
	for _, m := range MembersOf(f) {
		if reg, ok := v.Clusters.m[m.ClusterID]; ok && reg.Rec.Removal != nil {
			out.Removing[m.ClusterID] = reg.Rec.Removal
		}
	}
	for i, m := range f.Members {
		if m.Replica() {
			out.Replicas = append(out.Replicas, v.Replica(m, i))
		}
	}
	for _, m := range addedBy(f) {
		out.Adding = append(out.Adding, v.Replica(m, -1))
	}
	for _, m := range f.Leaving {
		out.Leaving = append(out.Leaving, v.Replica(m, -1))
	}
	return out
}

// Together are the federations that take their steps with f: those of its batch, in the order of
// their uids, while their creation has no outcome. Of a federation that is alone it is f.
func (v *View) Together(f Versioned[record.Federation]) []Versioned[record.Federation] {
	if f.Rec.Batch == "" || !f.Rec.Phase.InFlight() {
		return []Versioned[record.Federation]{f}
	}
	return v.BatchOf(f.Rec.Batch)
}

// BatchOf are the federations of a batch that are in the store, in the order of their uids. A
// federation that was created alone is a batch of one.
func (v *View) BatchOf(first string) []Versioned[record.Federation] {
	var out []Versioned[record.Federation]
	for _, uid := range slices.Sorted(v.InBatch.Of(first)) {
		out = append(out, v.Federations.m[uid])
	}
	if f, ok := v.Federations.m[first]; ok && len(out) == 0 {
		out = append(out, f)
	}
	return out
}

// Replica is one member with its desired record and the report of its syncer. index is its
// index in the list of members, or -1.
func (v *View) Replica(m record.Member, index int) ReplicaState {
	r := ReplicaState{At: m, Member: index, Alive: v.Alive(m.ClusterID), Trouble: v.Trouble(m.ClusterID), ClusterUID: v.ClusterUID(m.ClusterID), Compared: v.Compared(m.ClusterID), RunStates: v.setsRunStates(m.ClusterID), ReadsParts: v.ReadsParts(m.ClusterID)}
	if c, ok := v.Clusters.m[m.ClusterID]; ok && c.Rec.LastSeen != nil {
		t := c.Rec.LastSeen.Time
		r.LastSeen = &t
	}
	if n := v.Nodes.m[m.ClusterID]; n != nil && n.DesiredSelf.Rec != nil {
		r.SameOscarAs = n.DesiredSelf.Rec.SameOscarAs
		r.Stopped = n.DesiredSelf.Rec.State == record.ClusterPaused || r.SameOscarAs != ""
	}
	if d := v.Desired(m.ClusterID, m.ServiceName); d.Rec != nil && d.Rec.UID == m.UID {
		r.Desired, r.DesiredRev = d.Rec, d.Rev
	}
	if o := v.Observed(m.ClusterID, m.ServiceName); o.Rec != nil && o.Rec.UID == m.UID {
		r.Observed = o.Rec
	}
	if r.Desired != nil && r.Desired.Tombstone() && v.abandoned(m.ClusterID) {
		r.Desired, r.Observed, r.Abandoned = nil, nil, true
	}
	return r
}

// ClusterUID is the uid of the registration that a cluster's records belong to; empty when
// there is none.
func (v *View) ClusterUID(cluster string) string {
	if n := v.Nodes.m[cluster]; n != nil && n.DesiredSelf.Rec != nil {
		return n.DesiredSelf.Rec.UID
	}
	return ""
}

// Compared says whether a cluster has compared its services with the desired records in the
// present epoch.
func (v *View) Compared(cluster string) bool {
	n := v.Nodes.m[cluster]
	return n != nil && n.Self.Rec != nil && n.Self.Rec.Epoch == v.Epoch()
}

// MemberOf is the index of the member with a uid, or -1.
func MemberOf(members []record.Member, uid string) int {
	return slices.IndexFunc(members, func(m record.Member) bool { return m.UID == uid })
}

// Proposed says whether a pending change refers to a spec of d's federation.
func (v *View) Proposed(d *record.Desired, spec string) bool {
	f, ok := v.Federations.m[d.Federation]
	return ok && f.Rec.Change != nil && f.Rec.Change.Specs[d.UID] == spec
}

// MembersOf lists all members of a federation: the present ones, those that leave, and the replicas
// that a change adds.
func MembersOf(f *record.Federation) []record.Member {
	return slices.Concat(f.Members, f.Leaving, addedBy(f))
}

// addedBy are the replicas that a change which waits adds to a federation.
func addedBy(f *record.Federation) (out []record.Member) {
	if f.Change == nil {
		return nil
	}
	for _, m := range f.Change.Members {
		if m.Replica() && MemberOf(f.Members, m.UID) < 0 {
			out = append(out, m)
		}
	}
	return out
}

// abandoned says whether the tombstones on a cluster no longer belong to their federations: the
// cluster is not registered any more, or is being removed by force. The tombstones stay for the
// cluster, and no request waits for them.
func (v *View) abandoned(cluster string) bool {
	reg, ok := v.Clusters.m[cluster]
	return !ok || reg.Rec.Removal != nil && reg.Rec.Removal.Force
}

// departing says whether a cluster is being removed, or was.
func (v *View) departing(cluster string) bool {
	reg, ok := v.Clusters.m[cluster]
	return !ok || reg.Rec.Removal != nil
}

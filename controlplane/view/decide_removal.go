package view

import (
	"slices"

	"github.com/oscarfed/oscarfed/store/record"
)

// MembersOf are all that a federation names: its members, those that a change
// adds, and those that leave.
func MembersOf(f *record.Federation) []record.Member {
	out := slices.Concat(f.Members, f.Leaving)
	if f.Change != nil {
		out = append(out, f.Change.Members...)
	}
	return out
}

// abandoned says whether the tombstones on a cluster belong to their federations no more: it
// is registered no more, or is being removed by force. They stay for the cluster, and nobody
// waits for them.
func (v *View) abandoned(cluster string) bool {
	reg, ok := v.Clusters[cluster]
	return !ok || reg.Rec.Removal != nil && reg.Rec.Removal.Force
}

// departing says whether a cluster is being removed, or was.
func (v *View) departing(cluster string) bool {
	reg, ok := v.Clusters[cluster]
	return !ok || reg.Rec.Removal != nil
}

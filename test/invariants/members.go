package invariants

import (
	"slices"

	"github.com/oscarfed/oscarfed/store/record"
)

// added lists the replicas that a pending change adds to a federation.
func added(f *record.Federation) []record.Member {
	if f.Change == nil {
		return nil
	}
	var out []record.Member
	for _, m := range f.Change.Members {
		if m.Replica() && !slices.ContainsFunc(f.Members, func(o record.Member) bool { return o.UID == m.UID }) {
			out = append(out, m)
		}
	}
	return out
}

// replicasOf lists the replicas that a federation holds a place for: its own, and
// those that a pending change adds.
func replicasOf(f *record.Federation) []record.Member {
	out := slices.DeleteFunc(slices.Clone(f.Members), func(m record.Member) bool { return !m.Replica() })
	return append(out, added(f)...)
}

// changed is the federation as its pending change would make it, as far as the
// graph goes.
func changed(f *record.Federation) *record.Federation {
	next := &record.Federation{UID: f.UID, Generation: f.Generation + 1, Topology: f.Change.Topology, Members: f.Change.Members, RunState: f.RunState}
	if f.Change.Unexposed {
		next.RunState = ""
	}
	return next
}

package invariants

import (
	"maps"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
)

// Promise 3, mesh: each replica lists all others. star (and its older word tree): the
// coordinator lists all others, and they list none. none: no replica lists another.
// A replica lists neither itself nor what is not a member. All are asked to run, or to be stopped, as their federation
// is.

func graphStands(c *checker, uid string, f, _ *record.Federation) {
	if f == nil {
		return
	}
	c.graphHolds(record.FederationKey(uid), f, f.Members)
	if f.Change != nil {
		c.graphHolds(record.FederationKey(uid), changed(f), added(f))
	}
}

// graphHolds looks at a graph, and at what those members see that are asked for it
// now.
func (c *checker) graphHolds(key string, f *record.Federation, asked []record.Member) {
	coordinators := 0
	for _, m := range f.Members {
		if !m.Coordinator {
			continue
		}
		coordinators++
		if !m.Replica() {
			c.violatef(RuleGraph, key, "its coordinator %s is no replica", placeOf(m))
		}
	}
	if coordinators != 1 {
		c.violatef(RuleGraph, key, "generation %d has %d coordinators", f.Generation, coordinators)
	}
	for _, m := range asked {
		if !m.Replica() {
			continue
		}
		d := c.desired(placeOf(m), m.UID)
		if d == nil || d.Tombstone() {
			continue
		}
		if d.RunState != f.RunState {
			c.violatef(RuleGraph, key, "run state %q is ordered, and of %s %q", f.RunState, placeOf(m), d.RunState)
		}
		want, ok := seesOf(f, m)
		if !ok {
			c.violatef(RuleGraph, key, "topology %q is unknown", f.Topology)
			return
		}
		c.compareSees(placeOf(m), d, want)
	}
}

// seesOf lists whom a replica must see.
func seesOf(f *record.Federation, of record.Member) (map[string]bool, bool) {
	want := map[string]bool{}
	switch f.Topology {
	case "none":
		return want, true
	case "star", "tree":
		if !of.Coordinator {
			return want, true
		}
	case "mesh":
	default:
		return nil, false
	}
	for _, m := range f.Members {
		if m.Replica() && placeOf(m) != placeOf(of) {
			want[placeOf(m).String()] = true
		}
	}
	return want, true
}

func (c *checker) compareSees(at place, d *record.Desired, want map[string]bool) {
	have := map[string]bool{}
	for _, s := range d.Sees {
		switch {
		case s == at.String():
			c.violatef(RuleGraph, at.desiredKey(), "it lists itself")
		case have[s]:
			c.violatef(RuleGraph, at.desiredKey(), "it lists %s twice", s)
		}
		have[s] = true
	}
	if !maps.Equal(have, want) {
		c.violatef(RuleGraph, at.desiredKey(), "it lists [%s], the graph says [%s]", sorted(have), sorted(want))
	}
}

func sorted(set map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(set)), " ")
}

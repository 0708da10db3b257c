package topology

import (
	"reflect"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// Change is what is between two graphs. Each node of the new graph is in exactly
// one of Added, Kept and Changed, each of the old in exactly one of Removed, Kept
// and Changed; Kept and Changed hold the new form. Members are the same by
// oscar.MemberKey.
type Change struct {
	Added, Removed, Kept, Changed []Node
}

// Diff compares two graphs; nil is one without nodes.
func Diff(before, after *Graph) Change {
	var c Change
	if before == nil {
		before = &Graph{}
	}
	if after == nil {
		after = &Graph{}
	}
	left := make(map[oscar.MemberKey]Node, len(before.Nodes))
	for _, n := range before.Nodes {
		left[n.Member.Key()] = n
	}
	for _, n := range after.Nodes {
		was, ok := left[n.Member.Key()]
		delete(left, n.Member.Key())
		switch {
		case !ok:
			c.Added = append(c.Added, n)
		case sameNode(was, n):
			c.Kept = append(c.Kept, n)
		default:
			c.Changed = append(c.Changed, n)
		}
	}
	for _, n := range before.Nodes {
		if _, ok := left[n.Member.Key()]; ok {
			c.Removed = append(c.Removed, n)
		}
	}
	return c
}

func sameNode(a, b Node) bool {
	a.Member.Type, b.Member.Type = a.Member.Kind(), b.Member.Kind()
	if len(a.Member.Headers) == 0 && len(b.Member.Headers) == 0 {
		a.Member.Headers, b.Member.Headers = nil, nil
	}
	if len(a.Member.Extra) == 0 && len(b.Member.Extra) == 0 {
		a.Member.Extra, b.Member.Extra = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

package topology

import (
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
)

func names(nodes []Node) string {
	out := ""
	for _, n := range nodes {
		out += n.Name() + " "
	}
	return out
}

func TestDiff(t *testing.T) {
	node := func(cluster string, priority int) Node {
		return Node{Member: oscar.Member{Type: "oscar", ClusterID: cluster, ServiceName: "s", Priority: priority}}
	}
	before := &Graph{Topology: "tree", Nodes: []Node{node("a", 0), node("b", 0), node("c", 0)}}
	after := &Graph{Topology: "star", Nodes: []Node{node("a", 0), node("c", 5), node("d", 0)}}
	c := Diff(before, after)
	if names(c.Added) != "d/s " || names(c.Removed) != "b/s " || names(c.Kept) != "a/s " || names(c.Changed) != "c/s " || c.Changed[0].Member.Priority != 5 {
		t.Errorf("%+v", c)
	}
	if nothing(c) {
		t.Error("a change is empty")
	}
	if c := Diff(nil, after); len(c.Added) != 3 || len(c.Removed) != 0 {
		t.Errorf("from nothing: %+v", c)
	}
	if c := Diff(before, nil); len(c.Removed) != 3 || len(c.Added) != 0 {
		t.Errorf("to nothing: %+v", c)
	}
	if !nothing(Diff(nil, nil)) {
		t.Error("nothing differs from nothing")
	}
}

func TestFormsOfOneMemberAreTheSame(t *testing.T) {
	before := &Graph{Nodes: []Node{{Member: oscar.Member{ClusterID: "a", ServiceName: "s"}}}}
	after := &Graph{Nodes: []Node{{Member: oscar.Member{Type: "OSCAR", ClusterID: "a", ServiceName: "s", Headers: map[string]string{}, Extra: oscar.Extra{}}}}}
	if c := Diff(before, after); !nothing(c) || len(c.Kept) != 1 {
		t.Errorf("%+v", c)
	}
	after.Nodes[0].Member.Headers["X"] = "1"
	if c := Diff(before, after); len(c.Changed) != 1 {
		t.Errorf("a new header is no change: %+v", c)
	}
}

// nothing says whether a change changes nothing.
func nothing(c Change) bool {
	return len(c.Added) == 0 && len(c.Removed) == 0 && len(c.Changed) == 0
}

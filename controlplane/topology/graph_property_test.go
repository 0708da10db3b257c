package topology

import (
	"fmt"
	"testing"

	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/topo"
	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// drawService draws a valid service with up to 12 members, replicas and endpoints.
func drawService(t *rapid.T) *oscar.Service {
	s := &oscar.Service{Name: "svc", ClusterID: "home", Image: "i", Script: "s", Federation: &oscar.Federation{
		Topology:   rapid.SampledFrom([]string{"", "none", "star", "tree", "mesh"}).Draw(t, "topology"),
		Delegation: rapid.SampledFrom([]string{"", "static", "random", "load-based", "topsis"}).Draw(t, "delegation"),
	}}
	for i := range rapid.IntRange(0, 12).Draw(t, "members") {
		m := oscar.Member{Type: "oscar", ClusterID: fmt.Sprintf("c%d", i), ServiceName: "svc", Priority: rapid.IntRange(0, 101).Draw(t, "priority")}
		if rapid.IntRange(0, 3).Draw(t, "endpoint") == 0 {
			m = oscar.Member{Type: "endpoint", URL: fmt.Sprintf("https://e/%d", i)}
		}
		s.Federation.Members = append(s.Federation.Members, m)
	}
	return s
}

// directed makes gonum's graph of what the nodes see.
func directed(t *rapid.T, g *Graph) *simple.DirectedGraph {
	d := simple.NewDirectedGraph()
	for i := range g.Nodes {
		d.AddNode(simple.Node(i))
	}
	for i := range g.Nodes {
		for _, j := range g.Sees(i) {
			if j == i {
				t.Fatalf("node %d lists itself", i)
			}
			if j < 0 || j >= len(g.Nodes) {
				t.Fatalf("node %d lists %d, which is not there", i, j)
			}
			if d.HasEdgeFromTo(int64(i), int64(j)) {
				t.Fatalf("node %d lists %d twice", i, j)
			}
			d.SetEdge(d.NewEdge(simple.Node(i), simple.Node(j)))
		}
	}
	return d
}

// What the topologies are, by an independent library: a mesh of replicas is one
// strongly connected component and complete; a star has no cycle, one level and
// the coordinator as its only root; none has no edge.
func TestTopologiesAgainstAnOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, violations := FromService(drawService(t), Env{})
		if len(violations) > 0 {
			t.Fatalf("%v", violations)
		}
		d := directed(t, g)
		edges, replicas, endpoints := d.Edges().Len(), len(g.Replicas()), len(g.Nodes)-len(g.Replicas())
		if got := len(g.Edges()); got != edges {
			t.Fatalf("Edges gives %d, Sees %d", got, edges)
		}
		switch g.Canonical() {
		case "none":
			if edges != 0 {
				t.Fatalf("none has %d edges", edges)
			}
		case "star":
			if edges != len(g.Nodes)-1 || d.From(0).Len() != edges || d.To(0).Len() != 0 {
				t.Fatalf("star of %d nodes has %d edges, %d of the coordinator", len(g.Nodes), edges, d.From(0).Len())
			}
			if _, err := topo.Sort(d); err != nil {
				t.Fatalf("a star has a cycle: %v", err)
			}
		case "mesh":
			if want := replicas*(replicas-1) + replicas*endpoints; edges != want {
				t.Fatalf("mesh of %d replicas and %d endpoints has %d edges, want %d", replicas, endpoints, edges, want)
			}
			largest := 0
			for _, component := range topo.TarjanSCC(d) {
				largest = max(largest, len(component))
			}
			if largest != replicas {
				t.Fatalf("mesh: the largest strongly connected component has %d of %d replicas", largest, replicas)
			}
		default:
			t.Fatalf("topology %q", g.Topology)
		}
		for i, n := range g.Nodes {
			if n.Coordinator != (i == 0) {
				t.Fatalf("coordinator of node %d is %v", i, n.Coordinator)
			}
			if !n.Replica() && d.From(int64(i)).Len() > 0 {
				t.Fatalf("endpoint %d lists somebody", i)
			}
		}
	})
}

// Diff partitions both graphs, and applying it to the old gives the new.
func TestDiffPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, v1 := FromService(drawService(t), Env{})
		after, v2 := FromService(drawService(t), Env{})
		if len(v1)+len(v2) > 0 {
			t.Fatalf("%v %v", v1, v2)
		}
		c := Diff(before, after)
		if got := len(c.Added) + len(c.Kept) + len(c.Changed); got != len(after.Nodes) {
			t.Fatalf("%d of %d new nodes", got, len(after.Nodes))
		}
		if got := len(c.Removed) + len(c.Kept) + len(c.Changed); got != len(before.Nodes) {
			t.Fatalf("%d of %d old nodes", got, len(before.Nodes))
		}
		state := map[oscar.MemberKey]Node{}
		for _, n := range before.Nodes {
			state[n.Member.Key()] = n
		}
		for _, n := range c.Removed {
			delete(state, n.Member.Key())
		}
		for _, n := range append(append([]Node{}, c.Added...), c.Changed...) {
			state[n.Member.Key()] = n
		}
		if len(state) != len(after.Nodes) {
			t.Fatalf("%d nodes after the change, want %d", len(state), len(after.Nodes))
		}
		for _, n := range after.Nodes {
			if was := state[n.Member.Key()]; !sameNode(was, n) {
				t.Fatalf("after the change %+v, want %+v", was, n)
			}
		}
		if !nothing(Diff(after, after)) {
			t.Fatal("a graph differs from itself")
		}
	})
}

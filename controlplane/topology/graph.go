package topology

import (
	"github.com/oscarfed/oscarfed/api/oscar"
)

// Node is one member of a graph, the coordinator included. Nodes of type oscar
// are replicas; those of type endpoint take jobs and list none.
type Node struct {
	Member      oscar.Member
	Coordinator bool
}

// Replica says whether the node is a service that is deployed.
func (n Node) Replica() bool { return n.Member.Replica() }

// Name is cluster/service, or the url of an endpoint.
func (n Node) Name() string { return n.Member.Key().String() }

// Graph is a federation. Nodes[0] is the coordinator, the others stand in the
// order in which they were given. Topology is the word that the user gave.
type Graph struct {
	GroupID              string
	Topology             string
	Delegation           string
	Deployment           string
	Drift                string
	ReschedulerThreshold int
	Nodes                []Node
}

// Canonical is the topology in the words of OSCAR v4: tree is star.
func Canonical(topology string) string {
	if topology == oscar.TopologyTree {
		return oscar.TopologyStar
	}
	return topology
}

// Canonical is the graph's topology in the words of OSCAR v4.
func (g *Graph) Canonical() string { return Canonical(g.Topology) }

// Replicas are the nodes that are deployed, the coordinator first.
func (g *Graph) Replicas() []Node {
	out := make([]Node, 0, len(g.Nodes))
	for _, n := range g.Nodes {
		if n.Replica() {
			out = append(out, n)
		}
	}
	return out
}

// Sees lists the indexes of the nodes that node i lists, ascending; never i
// itself, never nil. An index that is not there sees none.
func (g *Graph) Sees(i int) []int {
	out := []int{}
	if i < 0 || i >= len(g.Nodes) || !g.Nodes[i].Replica() {
		return out
	}
	topology := g.Canonical()
	if topology != oscar.TopologyMesh && (topology != oscar.TopologyStar || !g.Nodes[i].Coordinator) {
		return out
	}
	for j := range g.Nodes {
		if j != i {
			out = append(out, j)
		}
	}
	return out
}

// Edges are the pairs of names from, to over all nodes, in the order of Nodes.
// The list is never nil.
func (g *Graph) Edges() [][2]string {
	out := [][2]string{}
	for i, n := range g.Nodes {
		for _, j := range g.Sees(i) {
			out = append(out, [2]string{n.Name(), g.Nodes[j].Name()})
		}
	}
	return out
}

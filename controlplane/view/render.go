package view

import (
	"github.com/oscarfed/oscarfed/controlplane/topology"
)

// Sees lists cluster/service of the replicas that replica i lists.
func Sees(g *topology.Graph, i int) []string {
	var out []string
	for _, j := range g.Sees(i) {
		if n := g.Nodes[j]; n.Replica() {
			out = append(out, n.Member.ClusterID+"/"+n.Member.ServiceName)
		}
	}
	return out
}

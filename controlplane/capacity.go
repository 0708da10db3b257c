package controlplane

import (
	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/store/record"
)

// capacity is what a cluster has free, and whether that is fresh. It must be called
// inside read.
func (s *state) capacity(cluster string) (delegation.Capacity, bool) {
	n := s.nodes[cluster]
	if n == nil || !n.fresh() {
		return delegation.Capacity{}, false
	}
	c := n.capacity.rec
	out := delegation.Capacity{Nodes: make([]delegation.Request, 0, len(c.Nodes))}
	for _, node := range c.Nodes {
		if node.Status == record.NodeReady {
			out.Nodes = append(out.Nodes, delegation.Request{CPU: node.CPU.Free, Memory: node.Memory.Free, GPU: node.GPU.Free})
		}
	}
	if r := c.Unlisted; r != nil {
		out.More = delegation.Sum{Nodes: r.Nodes, Request: delegation.Request{CPU: r.CPU.Free, Memory: r.Memory.Free, GPU: r.GPU.Free}}
	}
	return out, true
}

// fresh says whether what the cluster has free was written in its present session, and
// its OSCAR was not found away or refusing since.
func (n *node) fresh() bool {
	if n.session.rec == nil || n.capacity.rec == nil || n.capacity.rec.Session != n.session.rev {
		return false
	}
	if n.self.rec == nil {
		return true
	}
	switch n.self.rec.Reason {
	case record.ReasonOscarUnreachable, record.ReasonCredentialRefused, record.ReasonUnsupportedVersion, record.ReasonOtherRegistration:
		return false
	}
	return true
}

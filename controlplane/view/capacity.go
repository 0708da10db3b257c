package view

import (
	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/store/record"
)

// Capacity is a cluster's free capacity. It is false when that is not fresh.
func (v *View) Capacity(cluster string) (delegation.Capacity, bool) {
	n := v.Nodes.m[cluster]
	if n == nil || !n.Fresh() {
		return delegation.Capacity{}, false
	}
	c := n.Capacity.Rec
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

// Promised is what a cluster has promised to jobs that are not seen running yet.
func (v *View) Promised(cluster string) (sum delegation.Request) {
	reserved := v.Jobs.Reserved.Get(cluster).Rec
	if reserved == nil {
		return sum
	}
	for _, p := range reserved.Jobs {
		sum = sum.Plus(RequestOf(p.Room).Floor().Times(max(p.Count, 0)))
	}
	return sum
}

// RequestOf is the request that a record tells.
func RequestOf(r record.Room) delegation.Request {
	return delegation.Request{CPU: r.Millicores, Memory: r.Bytes, GPU: r.GPUs}
}

// Fresh says whether the cluster's free capacity was written in its present session, its syncer
// can still measure it, and its OSCAR has not been found away or refusing since.
func (n Node) Fresh() bool {
	if n.Session.Rec == nil || n.Capacity.Rec == nil || n.Capacity.Rec.Session != n.Session.Rev || n.Capacity.Rec.FailingSince != nil {
		return false
	}
	if n.DesiredSelf.Rec != nil && n.DesiredSelf.Rec.SameOscarAs != "" {
		return false
	}
	if n.Self.Rec == nil {
		return true
	}
	switch n.Self.Rec.Reason {
	case record.ReasonOscarUnreachable, record.ReasonCredentialRefused, record.ReasonUnsupportedVersion, record.ReasonOtherRegistration:
		return false
	}
	return true
}

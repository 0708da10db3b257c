package controlplane

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
)

// capacity is what a cluster has free, and whether that is fresh.
func (v *View) capacity(cluster string) (delegation.Capacity, bool) {
	n := v.nodes[cluster]
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

// fresh says whether what the cluster has free was written in its present session, its syncer
// can still measure it, and its OSCAR was not found away or refusing since.
func (n *node) fresh() bool {
	if n.session.rec == nil || n.capacity.rec == nil || n.capacity.rec.Session != n.session.rev || n.capacity.rec.FailingSince != nil {
		return false
	}
	if n.desiredSelf.rec != nil && n.desiredSelf.rec.SameOscarAs != "" {
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

// Room is what the clusters have for jobs.
type Room struct {
	// Clusters by id.
	Clusters []ClusterRoom
	// Jobs that have not ended; 0 for who is no administrator.
	Jobs int
}

// ClusterRoom is what one cluster has for jobs. What it had is of use only while Fresh.
type ClusterRoom struct {
	ClusterID string
	State     record.ClusterState
	Alive     bool
	// Fresh says that Capacity is of the present session. FailingSince is since when its syncer
	// cannot measure it, and Message why; nil when it can.
	Fresh        bool
	FailingSince *time.Time
	Message      string
	// Capacity is nil when it is not fresh.
	Capacity *record.Capacity
	// Promised are the CPU and memory of jobs that are not seen running yet.
	PromisedMillicores, PromisedBytes int64
}

// Room tells what each registered cluster has for jobs. Every caller may know it, as at
// an OSCAR; how many jobs there are, and what nodes are called, is for the administrator.
func (c *ControlPlane) Room(ctx context.Context, caller identity.Caller) (Room, error) {
	if err := c.fresh(ctx); err != nil {
		return Room{}, err
	}
	out := Room{Clusters: []ClusterRoom{}}
	c.state.read(func(v *View) {
		for id, reg := range v.clusters {
			r := ClusterRoom{ClusterID: id, State: reg.rec.State, Alive: v.alive(id)}
			if n := v.nodes[id]; n != nil && n.fresh() {
				r.Fresh, r.Capacity = true, n.capacity.rec // never changed once it is read
				if !caller.Administrator {
					r.Capacity = unnamed(r.Capacity)
				}
			} else if n != nil && n.capacity.rec != nil && n.session.rec != nil && n.capacity.rec.Session == n.session.rev {
				if r.FailingSince = timeOf(n.capacity.rec.FailingSince); caller.Administrator {
					r.Message = n.capacity.rec.Message
				}
			}
			if reserved := v.jobs.reserved[id].rec; reserved != nil {
				for _, p := range reserved.Jobs {
					r.PromisedMillicores += p.Millicores * p.Count
					r.PromisedBytes += p.Bytes * p.Count
				}
			}
			out.Clusters = append(out.Clusters, r)
		}
		if caller.Administrator {
			for _, n := range v.jobs.inFlight {
				out.Jobs += n
			}
		}
	})
	slices.SortFunc(out.Clusters, func(a, b ClusterRoom) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	return out, nil
}

// unnamed numbers the nodes: their names tell of the network that they are in.
func unnamed(c *record.Capacity) *record.Capacity {
	out := *c
	out.Nodes = slices.Clone(c.Nodes)
	for i := range out.Nodes {
		out.Nodes[i].Name = "node-" + strconv.Itoa(i+1)
	}
	return &out
}

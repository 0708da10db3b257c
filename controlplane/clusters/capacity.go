package clusters

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// Capacities are the capacities of all clusters.
type Capacities struct {
	// Clusters by id.
	Clusters []Capacity
	// Jobs that have not ended; 0 unless the caller is an administrator.
	Jobs int
}

// Capacity is the capacity of one cluster for jobs. It counts only while Fresh.
type Capacity struct {
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

// Capacities lists the capacity of each registered cluster. Every caller may read it, as at an
// OSCAR; only an administrator sees the number of jobs and the names of nodes.
func (c *Controller) Capacities(ctx context.Context, caller identity.Caller) (Capacities, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return Capacities{}, err
	}
	out := Capacities{Clusters: []Capacity{}}
	c.state.Read(func(v *view.View) {
		for id, reg := range v.Clusters.All() {
			r := Capacity{ClusterID: id, State: reg.Rec.State, Alive: v.Alive(id)}
			if n := v.Nodes.Get(id); n.Fresh() {
				r.Fresh, r.Capacity = true, n.Capacity.Rec // never changed once it is read
				if !caller.Administrator {
					r.Capacity = unnamed(r.Capacity)
				}
			} else if n.Capacity.Rec != nil && n.Session.Rec != nil && n.Capacity.Rec.Session == n.Session.Rev {
				if r.FailingSince = view.TimeOf(n.Capacity.Rec.FailingSince); caller.Administrator {
					r.Message = n.Capacity.Rec.Message
				}
			}
			promised := v.Promised(id)
			r.PromisedMillicores, r.PromisedBytes = promised.CPU, promised.Memory
			out.Clusters = append(out.Clusters, r)
		}
		if caller.Administrator {
			for _, n := range v.Jobs.InFlight.All() {
				out.Jobs += n
			}
		}
	})
	slices.SortFunc(out.Clusters, func(a, b Capacity) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
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

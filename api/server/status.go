package server

import (
	"net/http"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
)

// maxStatusNodes bounds the nodes that GET /system/status lists; their number and sums
// are of all.
const maxStatusNodes = 1000

// systemStatus answers GET /system/status: the sum over the clusters in OSCAR's form, and each
// of them.
func (s *Server) systemStatus(w http.ResponseWriter, r *http.Request) error {
	room, err := s.cp.Clusters.Capacities(r.Context(), stateOf(r).caller)
	if err != nil {
		return err
	}
	return writeOSCAR(w, systemStatusOf(room))
}

func systemStatusOf(room clusters.Capacities) v1.SystemStatus {
	out := v1.SystemStatus{
		Cluster: v1.StatusCluster{List: []v1.StatusNode{}},
		OSCAR: v1.StatusManager{
			DeploymentName: "oscarfed", Ready: true, Deployment: v1.StatusDeployment{Labels: map[string]string{}}, Jobs: room.Jobs,
			Pods: v1.StatusPods{States: map[string]int{}}, OIDC: v1.StatusOIDC{Issuers: []string{}, Groups: []string{}},
		},
		Clusters: []v1.ClusterStatus{},
	}
	all := &out.Cluster.Metrics
	for i := range room.Clusters {
		c := clusterStatus(&room.Clusters[i])
		out.Clusters = append(out.Clusters, c)
		out.Cluster.Nodes += c.Nodes
		all.CPU.Free += c.CPU.Free
		all.CPU.MaxFree = max(all.CPU.MaxFree, c.CPU.MaxFree)
		all.Memory.Free += c.Memory.Free
		all.Memory.MaxFree = max(all.Memory.MaxFree, c.Memory.MaxFree)
		all.GPU.Total += c.GPU.Allocatable
		if room.Clusters[i].Capacity == nil {
			continue
		}
		for _, n := range room.Clusters[i].Capacity.Nodes {
			if len(out.Cluster.List) == maxStatusNodes {
				break
			}
			out.Cluster.List = append(out.Cluster.List, v1.StatusNode{
				Name: c.ClusterID + "/" + n.Name, GPU: n.GPU.Allocatable, Status: string(n.Status),
				CPU:        v1.StatusNodeCPU{Capacity: n.CPU.Allocatable, Request: n.CPU.Allocatable - n.CPU.Free},
				Memory:     v1.StatusNodeMemory{Capacity: n.Memory.Allocatable, Request: n.Memory.Allocatable - n.Memory.Free},
				Conditions: []v1.StatusCondition{{Type: "Ready", Status: true}},
			})
		}
	}
	all.CPU.Schedulable, all.CPU.SchedulableOnNode = all.CPU.Free, all.CPU.MaxFree
	all.Memory.Schedulable, all.Memory.SchedulableOnNode = all.Memory.Free, all.Memory.MaxFree
	return out
}

func clusterStatus(c *clusters.Capacity) v1.ClusterStatus {
	out := v1.ClusterStatus{ClusterID: c.ClusterID, State: string(c.State), Alive: c.Alive, Fresh: c.Fresh}
	out.FailingSince, out.Message = moment(c.FailingSince), c.Message
	out.CPU.Promised, out.Memory.Promised = c.PromisedMillicores, c.PromisedBytes
	free := c.Capacity
	if free == nil {
		return out
	}
	out.Source, out.ChangedAt = string(free.Source), new(v1.Time{Time: free.ChangedAt.Time})
	out.LookEvery = free.LookEvery
	out.Nodes = int64(len(free.Nodes))
	out.CPU.Free, out.CPU.MaxFree = free.CPU.TotalFree, free.CPU.MaxFreeOnNode
	out.Memory.Free, out.Memory.MaxFree = free.Memory.TotalFree, free.Memory.MaxFreeOnNode
	for _, n := range free.Nodes {
		out.CPU.Allocatable += n.CPU.Allocatable
		out.Memory.Allocatable += n.Memory.Allocatable
		out.GPU.Allocatable += n.GPU.Allocatable
		out.GPU.Free += n.GPU.Free
	}
	if rest := free.Unlisted; rest != nil {
		out.Nodes += rest.Nodes
		out.CPU.Allocatable += rest.CPU.Allocatable
		out.Memory.Allocatable += rest.Memory.Allocatable
		out.GPU.Allocatable += rest.GPU.Allocatable
		out.GPU.Free += rest.GPU.Free
	}
	return out
}

package server

import (
	"context"
	"math"
	"net/http"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/runs"
	"github.com/oscarfed/oscarfed/internal/version"
)

// maxStatusNodes bounds the nodes that GET /system/status lists; their number and sums
// are of all.
const maxStatusNodes = 1000

// systemStatus answers GET /system/status: the sum over the clusters in OSCAR's form, and each
// of them.
func (s *Server) systemStatus(w http.ResponseWriter, r *http.Request) error {
	room, err := s.cp.Clusters.Capacities(r.Context(), respond.StateOf(r).Caller)
	if err != nil {
		return err
	}
	return respond.OSCAR(w, systemStatusOf(room))
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
		add(&out.Cluster.Nodes, c.Nodes)
		add(&all.CPU.Free, c.CPU.Free)
		all.CPU.MaxFree = max(all.CPU.MaxFree, c.CPU.MaxFree)
		add(&all.Memory.Free, c.Memory.Free)
		all.Memory.MaxFree = max(all.Memory.MaxFree, c.Memory.MaxFree)
		add(&all.GPU.Total, c.GPU.Allocatable)
		if room.Clusters[i].Capacity == nil {
			continue
		}
		for _, n := range room.Clusters[i].Capacity.Nodes {
			if len(out.Cluster.List) == maxStatusNodes {
				break
			}
			out.Cluster.List = append(out.Cluster.List, v1.StatusNode{
				Name: c.ClusterID + "/" + n.Name, GPU: max(n.GPU.Allocatable, 0), Status: string(n.Status),
				CPU:        v1.StatusNodeCPU{Capacity: max(n.CPU.Allocatable, 0), Request: used(n.CPU.Allocatable, n.CPU.Free)},
				Memory:     v1.StatusNodeMemory{Capacity: max(n.Memory.Allocatable, 0), Request: used(n.Memory.Allocatable, n.Memory.Free)},
				Conditions: []v1.StatusCondition{{Type: "Ready", Status: true}},
			})
		}
	}
	all.CPU.Schedulable, all.CPU.SchedulableOnNode = all.CPU.Free, all.CPU.MaxFree
	all.Memory.Schedulable, all.Memory.SchedulableOnNode = all.Memory.Free, all.Memory.MaxFree
	return out
}

// add adds an amount that a syncer has reported. It may be anything: one that is negative is none, and a sum that is too
// large to count stays the largest number.
func add(sum *int64, n int64) {
	if n = max(n, 0); *sum > math.MaxInt64-n {
		n = math.MaxInt64 - *sum
	}
	*sum += n
}

// used is what is not free of an amount, at most all of it.
func used(of, free int64) int64 {
	of = max(of, 0)
	return of - min(max(free, 0), of)
}

func clusterStatus(c *clusters.Capacity) v1.ClusterStatus {
	out := v1.ClusterStatus{ClusterID: c.ClusterID, State: string(c.State), Alive: c.Alive, Fresh: c.Fresh}
	out.FailingSince, out.Message = v1.Moment(c.FailingSince), c.Message
	out.CPU.Promised, out.Memory.Promised = c.PromisedMillicores, c.PromisedBytes
	free := c.Capacity
	if free == nil {
		return out
	}
	out.Source, out.ChangedAt = string(free.Source), new(v1.Time{Time: free.ChangedAt.Time})
	out.LookEvery = free.LookEvery
	out.Nodes = int64(len(free.Nodes))
	out.CPU.Free, out.CPU.MaxFree = max(free.CPU.TotalFree, 0), max(free.CPU.MaxFreeOnNode, 0)
	out.Memory.Free, out.Memory.MaxFree = max(free.Memory.TotalFree, 0), max(free.Memory.MaxFreeOnNode, 0)
	for _, n := range free.Nodes {
		add(&out.CPU.Allocatable, n.CPU.Allocatable)
		add(&out.Memory.Allocatable, n.Memory.Allocatable)
		add(&out.GPU.Allocatable, n.GPU.Allocatable)
		add(&out.GPU.Free, n.GPU.Free)
	}
	if rest := free.Unlisted; rest != nil {
		add(&out.Nodes, rest.Nodes)
		add(&out.CPU.Allocatable, rest.CPU.Allocatable)
		add(&out.Memory.Allocatable, rest.Memory.Allocatable)
		add(&out.GPU.Allocatable, rest.GPU.Allocatable)
		add(&out.GPU.Free, rest.GPU.Free)
	}
	return out
}

// info answers GET /system/info. There is no one Kubernetes behind a federation,
// so its version is empty; clients only show it.
func (s *Server) info(w http.ResponseWriter, r *http.Request) error {
	build, cp := version.Get(), s.cp.Status.Info(r.Context())
	out := v1.Info{
		Version:         version.OSCAR,
		GitCommit:       build.Commit,
		Architecture:    build.Arch,
		OscarfedVersion: build.Version,
		ControlPlane:    cp.ControlPlane,
		Clusters:        cp.Clusters,
		AliveClusters:   cp.Alive,
	}
	if respond.StateOf(r).Caller.Administrator {
		out.Etcd = &v1.EtcdSpace{
			Space: cp.Etcd.Level, SizeBytes: cp.Etcd.Size, InUseBytes: cp.Etcd.InUse, QuotaBytes: cp.Etcd.Quota, Advice: cp.Etcd.Advice,
		}
		out.UpgradeUnfinished = cp.UpgradeUnfinished
	}
	return respond.OSCAR(w, out)
}

// Status is what the control plane says of itself.
type Status interface {
	// Ready is closed once the rest may be asked.
	Ready() <-chan struct{}
	Info(ctx context.Context) gate.Info
	Health(ctx context.Context) gate.Health
}

// Storage is what the routes ask of the storage of clusters.
type Storage interface {
	Resources
	// DefaultStorage is the default cluster's, with the caller's own keys or why there are none.
	DefaultStorage(ctx context.Context, caller identity.Caller) (runs.UserKeys, string, error)
	// StorageOf is a cluster's, with the caller's own keys.
	StorageOf(ctx context.Context, caller identity.Caller, cluster string) (*runs.UserKeys, error)
}

// health answers GET /health: whether requests can be served here now. What is wrong
// and does not keep this instance from serving is told after the word, with 200: a
// load balancer that took the instance away would make it worse.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.drained:
		respond.Text(w, http.StatusServiceUnavailable, "the control plane is stopping")
		return
	default:
	}
	switch h := s.cp.Status.Health(r.Context()); {
	case !h.OK:
		respond.Text(w, http.StatusServiceUnavailable, h.Message)
	case h.Message != "":
		respond.Text(w, http.StatusOK, "Ok, but "+h.Message)
	default:
		respond.Text(w, http.StatusOK, "Ok")
	}
}

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// phaseReady is the phase of a replica, and of a federation, that is as desired.
const phaseReady = "ready"

type getCmd struct {
	Federations getFederationsCmd `cmd:"" aliases:"federation" help:"The federations that you may see."`
	Replicas    getReplicasCmd    `cmd:"" aliases:"replica" help:"A service and the replicas that it lists."`
	Services    getServicesCmd    `cmd:"" aliases:"service" help:"The services that you may see, on every cluster."`
	Deleted     getDeletedCmd     `cmd:"" help:"Replicas that were deleted in the last 90 days, and which buckets stay."`
	Audit       getAuditCmd       `cmd:"" help:"Who did what, and what became of it, the newest first. For the administrator."`
	Clusters    getClustersCmd    `cmd:"" aliases:"cluster" help:"The registered clusters."`
	Capacity    getCapacityCmd    `cmd:"" help:"What each cluster has free for jobs."`
	Usage       getUsageCmd       `cmd:"" help:"What you have in etcd and how much is left; for the administrator, what everybody has."`
}

type getFederationsCmd struct{}

func (getFederationsCmd) Run(ctx context.Context, a *app) error {
	api, err := a.dial()
	if err != nil {
		return err
	}
	list, err := api.Federations(ctx)
	if err != nil {
		return err
	}
	return a.print(list, func() *output.Table {
		t := output.NewTable("GROUP", "COORDINATOR", "TOPOLOGY", "DELEGATION", "PHASE", "READY", "GENERATION", "OWNER", "AGE")
		for i := range list {
			f := &list[i]
			t.Row(f.GroupID, f.Coordinator.ClusterID+"/"+f.Coordinator.ServiceName, f.Topology, f.Delegation, f.Phase,
				fmt.Sprintf("%d/%d", ready(f), len(deployed(f))), strconv.FormatInt(f.Generation, 10), f.Owner,
				output.Age(f.CreatedAt.Time, a.now()))
		}
		return t
	})
}

type getReplicasCmd struct {
	Service string `arg:"" help:"Name of the service."`
	Cluster string `help:"Cluster of the service, when several have one of that name." placeholder:"ID"`
	Watch   bool   `short:"w" env:"-" help:"Go on and show each change, until interrupted or the service is gone."`
}

func (c *getReplicasCmd) Run(ctx context.Context, a *app) error {
	api, err := a.dial()
	if err != nil {
		return err
	}
	if c.Watch {
		return c.watch(ctx, a, api)
	}
	view, err := api.Replicas(ctx, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	return a.print(view, func() *output.Table { return viewTable(view) })
}

// viewTable is a federation as one replica sees it, that replica first.
func viewTable(view *v1.Replicas) *output.Table {
	return replicaTable(append([]v1.Replica{view.Self}, view.Replicas...))
}

// replicaTable has a line for each replica, in the order given.
func replicaTable(replicas []v1.Replica) *output.Table {
	t := output.NewTable("CLUSTER", "SERVICE", "PHASE", "GENERATION", "REASON", "MESSAGE")
	for _, r := range replicas {
		if r.Status == nil {
			t.Row(cmp.Or(r.ClusterID, "-"), cmp.Or(r.ServiceName, r.URL), r.Type, "", "", "")
			continue
		}
		t.Row(r.ClusterID, r.ServiceName, r.Status.Phase, strconv.FormatInt(r.Status.ObservedGeneration, 10), r.Status.Reason, r.Status.Message)
	}
	return t
}

type getServicesCmd struct{}

func (getServicesCmd) Run(ctx context.Context, a *app) error {
	api, err := a.dial()
	if err != nil {
		return err
	}
	list, err := api.Services(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(x, y *oscar.Service) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.ClusterID, y.ClusterID))
	})
	return a.print(list, func() *output.Table {
		t := output.NewTable("SERVICE", "CLUSTER", "GROUP", "CPU", "MEMORY", "IMAGE", "OWNER")
		for _, s := range list {
			group := ""
			if s.Federation != nil {
				group = s.Federation.GroupID
			}
			t.Row(s.Name, s.ClusterID, group, s.CPU, s.Memory, s.Image, s.Owner)
		}
		return t
	})
}

type getClustersCmd struct{}

func (getClustersCmd) Run(ctx context.Context, a *app) error { return listClusters(ctx, a) }

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// phaseReady is the phase of a replica, and of a federation, that is as desired.
const phaseReady = "ready"

// newGetCmd is the parent of the commands that list something.
func newGetCmd(_ *app, kinds ...*cobra.Command) *cobra.Command {
	cmd := parent("get", "List federations, replicas, services or clusters", kinds...)
	cmd.Example = "  oscarfed get federations\n  oscarfed get clusters -o yaml"
	return cmd
}

type getFederationsCmd struct{}

func newGetFederationsCmd(a *app) *cobra.Command {
	var c getFederationsCmd
	return &cobra.Command{
		Use:     "federations",
		Aliases: []string{"federation"},
		Short:   "The federations that you may see",
		Example: "  oscarfed get federations\n" +
			"  oscarfed get federations -o json",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
}

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
	Service string
	Cluster string
	Watch   bool
}

func newGetReplicasCmd(a *app) *cobra.Command {
	var c getReplicasCmd
	cmd := &cobra.Command{
		Use:     "replicas SERVICE",
		Aliases: []string{"replica"},
		Short:   "A service and the replicas that it lists",
		Example: "  oscarfed get replicas grayify\n" +
			"  oscarfed get replicas grayify -w",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := flagsOf(cmd)
	f.text(&c.Cluster, "cluster", "", "", "ID", "Cluster of the service, when several have one of that name.")
	f.BoolVarP(&c.Watch, "watch", "w", false, "Go on and show each change, until interrupted or the service is gone.")
	return cmd
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

func newGetServicesCmd(a *app) *cobra.Command {
	var c getServicesCmd
	return &cobra.Command{
		Use:     "services",
		Aliases: []string{"service"},
		Short:   "The services that you may see, on every cluster",
		Example: "  oscarfed get services\n" +
			"  oscarfed get services -o yaml",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
}

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

func newGetClustersCmd(a *app) *cobra.Command {
	var c getClustersCmd
	return &cobra.Command{
		Use:     "clusters",
		Aliases: []string{"cluster"},
		Short:   "The registered clusters",
		Example: "  oscarfed get clusters",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
}

func (getClustersCmd) Run(ctx context.Context, a *app) error { return listClusters(ctx, a) }

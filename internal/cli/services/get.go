package services

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type getFederationsCmd struct{ command.Listing }

// GetFederations is `oscarfed get federations`.
func GetFederations(a *command.App) *cobra.Command {
	var c getFederationsCmd
	cmd := &cobra.Command{
		Use:     "federations [GROUP...]",
		Aliases: []string{"federation"},
		Short:   "The federations that you may see",
		Example: "  oscarfed get federations\n" +
			"  oscarfed get federations -w",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Names = args
			return c.Run(cmd.Context(), a)
		},
	}
	c.Flags(command.FlagsOf(cmd))
	return cmd
}

func (c *getFederationsCmd) Run(ctx context.Context, a *command.App) error {
	table := func(list []v1.Federation) *output.Table {
		t := output.NewTable("GROUP", "COORDINATOR", "TOPOLOGY", "DELEGATION", "PHASE", "READY", "GENERATION", "OWNER", "AGE").
			Optional("DELEGATION", "TOPOLOGY", "OWNER", "GENERATION")
		for i := range list {
			f := &list[i]
			t.Row(f.GroupID, f.Coordinator.ClusterID+"/"+f.Coordinator.ServiceName, f.Topology, f.Delegation, phaseOf(f),
				fmt.Sprintf("%d/%d", ready(f), len(deployed(f))), strconv.FormatInt(f.Generation, 10), f.Owner,
				output.Age(f.CreatedAt.Time, a.Now()))
		}
		return t
	}
	return command.PrintList(ctx, a, &c.Listing, command.Kind[v1.Federation]{
		Fetch: federationsOf, Table: table, Event: v1.EventFederation, Name: func(f v1.Federation) string { return f.UID },
		Of: func(_ context.Context, _ *client.Client, e *v1.Event) (v1.Federation, error) {
			return command.EventOf(e.Federation)
		},
	})
}

// phaseOf is the phase of a federation in a table. What is paused is not repaired, however ready it is.
func phaseOf(f *v1.Federation) string {
	if f.Paused {
		return f.Phase + ", paused"
	}
	return f.Phase
}

type getReplicasCmd struct {
	command.Listing
	Service string
	Cluster string
}

// GetReplicas is `oscarfed get replicas`.
func GetReplicas(a *command.App) *cobra.Command {
	var c getReplicasCmd
	cmd := &cobra.Command{
		Use:     "replicas [SERVICE]",
		Aliases: []string{"replica"},
		Short:   "How replicas stand: all that you may see, or a service and those that it lists",
		Example: "  oscarfed get replicas --sort-by PHASE\n" +
			"  oscarfed get replicas grayify -w",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = command.Argument(args, 0)
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.Text(&c.Cluster, "cluster", "", "", "ID", "Only replicas on this cluster; of the service, when several have its name.")
	c.Flags(f)
	return cmd
}

// list prints how all replicas stand.
func (c *getReplicasCmd) list(ctx context.Context, a *command.App) error {
	table := func(list []v1.ServiceStatus) *output.Table {
		t := output.NewTable("SERVICE", "CLUSTER", "GROUP", "PHASE", "GENERATION", "REASON", "MESSAGE", "OWNER").
			Optional("OWNER", "GROUP", "GENERATION")
		for _, s := range list {
			t.Row(s.ServiceName, s.ClusterID, s.GroupID, s.Status.Phase, fmt.Sprintf("%d/%d", s.Status.ObservedGeneration, s.Generation),
				s.Status.Reason, s.Status.Message, s.Owner)
		}
		return t
	}
	return command.PrintList(ctx, a, &c.Listing, command.Kind[v1.ServiceStatus]{
		Fetch: func(ctx context.Context, api *client.Client) ([]v1.ServiceStatus, error) {
			return api.ReplicaStatuses(ctx, c.Cluster)
		},
		Table: table, Query: client.ListQuery{ClusterID: c.Cluster}, Event: v1.EventService,
		Name: func(s v1.ServiceStatus) string { return s.ClusterID + "/" + s.ServiceName },
		Of: func(_ context.Context, _ *client.Client, e *v1.Event) (v1.ServiceStatus, error) {
			return command.EventOf(e.Service)
		},
	})
}

func (c *getReplicasCmd) Run(ctx context.Context, a *command.App) error {
	if c.Service == "" {
		return c.list(ctx, a)
	}
	if c.Arranged() {
		return exit.Usagef("--selector and --sort-by are for the list of all replicas: leave SERVICE out")
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	if c.Watching() {
		return c.watch(ctx, a, api)
	}
	view, err := api.Replicas(ctx, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	if err := a.Print(view, func() *output.Table { return viewTable(view) }); err != nil {
		return err
	}
	sayFailed(a, view, c.Service)
	return nil
}

// viewTable is a federation as one replica sees it, that replica first.
func viewTable(view *v1.Replicas) *output.Table {
	return replicaTable(ofFailed(view.Phase, append([]v1.Replica{view.Self}, view.Replicas...)))
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

type getServicesCmd struct{ command.Listing }

// GetServices is `oscarfed get services`.
func GetServices(a *command.App) *cobra.Command {
	var c getServicesCmd
	cmd := &cobra.Command{
		Use:     "services [SERVICE...]",
		Aliases: []string{"service"},
		Short:   "The services that you may see, on every cluster",
		Long: "The services that you may see, on every cluster. -o fdl writes what apply takes: each federation\n" +
			"once, as its coordinator defines it.",
		Example: "  oscarfed get services\n" +
			"  oscarfed get services grayify -o fdl\n" +
			"  oscarfed get services -l site=upv --sort-by .memory",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Names = args
			return c.Run(cmd.Context(), a)
		},
	}
	c.Flags(command.FlagsOf(cmd))
	command.AlsoForms(cmd, output.FormFDL)
	return cmd
}

func (c *getServicesCmd) Run(ctx context.Context, a *command.App) error {
	table := func(list []*oscar.Service) *output.Table {
		t := output.NewTable("SERVICE", "CLUSTER", "GROUP", "CPU", "MEMORY", "IMAGE", "OWNER").
			Optional("OWNER", "MEMORY", "CPU", "IMAGE")
		for _, s := range list {
			group := ""
			if s.Federation != nil {
				group = s.Federation.GroupID
			}
			t.Row(s.Name, s.ClusterID, group, s.CPU, s.Memory, s.Image, s.Owner)
		}
		return t
	}
	fetch := servicesInOrder
	if a.Form == output.FormFDL {
		fetch = c.applicable
	}
	return command.PrintList(ctx, a, &c.Listing, command.Kind[*oscar.Service]{
		Fetch: fetch, Table: table, Event: v1.EventService, Name: func(s *oscar.Service) string { return s.ClusterID + "/" + s.Name },
		Of: func(ctx context.Context, api *client.Client, e *v1.Event) (*oscar.Service, error) {
			s, err := command.EventOf(e.Service)
			if err != nil {
				return nil, err
			}
			return api.Service(ctx, s.ServiceName, s.ClusterID) // an event has no definition
		},
	})
}

// applicable lists what an FDL can be applied for: the definition of a federation is that of its coordinator, which
// names the members.
func (c *getServicesCmd) applicable(ctx context.Context, api *client.Client) ([]*oscar.Service, error) {
	list, err := servicesInOrder(ctx, api)
	if err != nil {
		return nil, err
	}
	federations, err := api.Federations(ctx)
	if err != nil {
		return nil, err
	}
	member := map[v1.Address]*v1.Federation{}
	for i := range federations {
		f := &federations[i]
		if f.Phase == v1.PhaseAborted || f.Phase == v1.PhaseRolledBack {
			continue // its names may be another's by now
		}
		for _, r := range deployed(f) {
			if at := (v1.Address{ClusterID: r.ClusterID, ServiceName: r.ServiceName}); at != f.Coordinator {
				member[at] = f
			}
		}
	}
	out := make([]*oscar.Service, 0, len(list))
	left := map[string]*v1.Federation{}
	for _, s := range list {
		if f := member[v1.Address{ClusterID: s.ClusterID, ServiceName: s.Name}]; f != nil {
			left[s.Name] = f
			continue
		}
		out = append(out, s)
	}
	for _, name := range c.Names {
		is := func(s *oscar.Service) bool { return s.Name == name }
		if f := left[name]; f != nil && !slices.ContainsFunc(out, is) {
			return nil, exit.Errorf(exit.Invalid, "%s is a member of federation %s, and has no definition of its own that could be applied; it is that of the coordinator: oscarfed get services %s -o fdl",
				name, f.GroupID, f.Coordinator.ServiceName)
		}
	}
	return out, nil
}

func federationsOf(ctx context.Context, api *client.Client) ([]v1.Federation, error) {
	return api.Federations(ctx)
}

// servicesInOrder lists services by name, then by cluster.
func servicesInOrder(ctx context.Context, api *client.Client) ([]*oscar.Service, error) {
	list, err := api.Services(ctx)
	slices.SortStableFunc(list, func(x, y *oscar.Service) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.ClusterID, y.ClusterID))
	})
	return list, err
}

// watch prints a service's view of its federation at each change, until the user interrupts it or
// the service is gone.
func (c *getReplicasCmd) watch(ctx context.Context, a *command.App, api *client.Client) error {
	rows := &replicaLog{rows: output.NewRowLog(a.Stdout, a.Style()), noHeaders: a.NoHeaders, shown: map[string]string{}}
	phase := ""
	err := api.WatchReplicas(ctx, c.Service, client.WatchOptions{
		ClusterID: c.Cluster,
		Broken:    func(err error) { a.Sayf("the connection is lost, trying again: %v", err) },
	}, func(view *v1.Replicas, _ int64) error {
		if a.Form != output.FormTable {
			return output.EncodeNext(a.Stdout, a.Form, view)
		}
		if now := fmt.Sprintf("%s, generation %d", output.Words(view.Phase), view.Generation); now != phase {
			a.Sayf("%s: %s", view.GroupID, now)
			phase = now
		}
		return rows.show(view)
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // that is how a watch ends
	}
	return err
}

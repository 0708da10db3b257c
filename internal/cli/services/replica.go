package services

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/suggest"
)

type replicaAddCmd struct {
	Service  string
	Members  []string
	Cluster  string
	Priority int
	Weight   *int
	change
}

// ReplicaAdd is `oscarfed replica add`.
func ReplicaAdd(a *command.App) *cobra.Command {
	var c replicaAddCmd
	cmd := &cobra.Command{
		Use:   "add SERVICE MEMBER...",
		Short: "Add members to a service's federation",
		Long: "Add members to a service's federation and deploy them. Their clusters vote first. A MEMBER is\n" +
			"CLUSTER/NAME, CLUSTER for a member of the service's own name, or the URL of an endpoint.",
		Example: "  oscarfed replica add grayify oscar-cluster-b/grayify2\n" +
			"  oscarfed replica add grayify oscar-cluster-b --priority 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			c.Members = args[1:]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.ClusterOf(&c.Cluster)
	f.Number(&c.Priority, "priority", 0, "Priority of the new members: 0 is the best; above 100 they get no jobs.")
	f.MaybeNumber(&c.Weight, "weight", "Weight of the new members for delegation random; equal when it is not given.")
	c.change.flags(f)
	return cmd
}

func (c *replicaAddCmd) Run(ctx context.Context, a *command.App) error {
	members, err := membersOf(c.Service, c.Members)
	if err != nil {
		return err
	}
	for i := range members {
		members[i].Priority, members[i].Weight = c.Priority, c.Weight
	}
	return c.members(ctx, a, c.Service, c.Cluster, func(api *client.Client, opts client.ChangeOptions) (*v1.Replicas, error) {
		return api.AddReplicas(ctx, c.Service, members, opts)
	})
}

type replicaRemoveCmd struct {
	command.Asking
	Service string
	Members []string
	All     bool
	Data    string
	Jobs    string
	Cluster string
	change
}

// ReplicaRemove is `oscarfed replica remove`.
func ReplicaRemove(a *command.App) *cobra.Command {
	var c replicaRemoveCmd
	cmd := &cobra.Command{
		Use:   "remove SERVICE [MEMBER...]",
		Short: "Remove members from a service's federation",
		Long: "Remove members from a service's federation and delete them. Buckets stay and running jobs are\n" +
			"waited for, unless ordered otherwise. A MEMBER is CLUSTER/NAME, CLUSTER for a member of the\n" +
			"service's own name, or the URL of an endpoint.",
		Example: "  oscarfed replica remove grayify oscar-cluster-b/grayify2\n" +
			"  oscarfed replica remove grayify --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			c.Members = args[1:]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	c.Asking.Flags(f)
	f.BoolVarP(&c.All, "all", "", false, "Remove every member but the coordinator.")
	f.Text(&c.Data, "data", "", "", "WORD", "delete: also delete the buckets that were made for the members, with what is in them.")
	f.Text(&c.Jobs, "jobs", "", "", "WORD", "cancel: end running jobs instead of waiting for them.")
	f.ClusterOf(&c.Cluster)
	c.change.flags(f)
	return cmd
}

func (c *replicaRemoveCmd) Run(ctx context.Context, a *command.App) error {
	switch {
	case c.All && len(c.Members) > 0:
		return exit.Usagef("--all and members are given; leave one of them out")
	case !c.All && len(c.Members) == 0:
		return exit.Usagef("name the members that go, or say --all")
	}
	if err := checkOrders(c.Data, c.Jobs); err != nil {
		return err
	}
	members, err := membersOf(c.Service, c.Members)
	if err != nil {
		return err
	}
	c.leaving = members
	if err := c.Ask(a, c.question()); err != nil {
		return err
	}
	return c.members(ctx, a, c.Service, c.Cluster, func(api *client.Client, opts client.ChangeOptions) (*v1.Replicas, error) {
		opts.Data, opts.Jobs = c.Data, c.Jobs
		if c.All {
			return api.RemoveAllReplicas(ctx, c.Service, opts)
		}
		return api.RemoveReplicas(ctx, c.Service, members, opts)
	})
}

// question names the members that are removed.
func (c *replicaRemoveCmd) question() string {
	if c.All {
		return "remove every member of " + c.Service + " but the coordinator"
	}
	return "remove " + strings.Join(c.Members, ", ") + " from the federation of " + c.Service
}

// change are the flags of both commands.
type change struct {
	// leaving are the members that are to go; each must be one of the federation.
	leaving []oscar.Member
	waiting
	IfMatch int64
}

func (c *change) flags(f command.Flags) {
	c.waiting.flags(f)
	f.Generation(&c.IfMatch, "if-match", "REVISION", "Change it only if the federation still has this revision.")
}

func (c change) members(ctx context.Context, a *command.App, service, cluster string, send func(*client.Client, client.ChangeOptions) (*v1.Replicas, error)) error {
	if c.IfMatch < 0 {
		return exit.Usagef("--if-match must be a revision, as get replicas -o json shows it")
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	before, err := api.Replicas(ctx, service, cluster)
	if err != nil {
		return err
	}
	if err := c.checkLeaving(ctx, api, before); err != nil {
		return err
	}
	return c.run(ctx, a, api, changeOf{
		service: service, cluster: cluster, generation: before.Generation,
		send: func(opts client.ChangeOptions) (*v1.Replicas, error) {
			opts.IfMatch = c.IfMatch
			return send(api, opts)
		},
	})
}

// checkLeaving refuses the removal of what is no member, or stays: it would be done at once, and nothing with it.
func (c change) checkLeaving(ctx context.Context, api *client.Client, before *v1.Replicas) error {
	if len(c.leaving) == 0 {
		return nil
	}
	coordinator := oscar.Member{Type: oscar.MemberOSCAR, ClusterID: before.Coordinator.ClusterID, ServiceName: before.Coordinator.ServiceName}.Key()
	if slices.ContainsFunc(c.leaving, func(m oscar.Member) bool { return m.Key() == coordinator }) {
		return exit.Errorf(exit.Conflict, "%s is the coordinator of federation %s, and stays as long as it does: oscarfed delete %s ends both",
			coordinator, before.GroupID, before.Coordinator.ServiceName)
	}
	f, err := api.Federation(ctx, before.UID)
	if exit.StatusOf(err) == exit.NotFound {
		return nil // it is going: the control plane says so
	}
	if err != nil {
		return err
	}
	var names []string
	for _, r := range f.Replicas {
		names = append(names, address(r))
	}
	for _, m := range c.leaving {
		if name := m.Key().String(); !slices.Contains(names, name) {
			return exit.Errorf(exit.NotFound, "%s is no member of federation %s%s; its members: %s",
				name, f.GroupID, suggest.Words(name, names), strings.Join(names, ", "))
		}
	}
	return nil
}

// membersOf reads members as they are named on the command line.
func membersOf(service string, args []string) ([]oscar.Member, error) {
	members := make([]oscar.Member, 0, len(args))
	for _, arg := range args {
		if strings.Contains(arg, "://") {
			members = append(members, oscar.Member{Type: oscar.MemberEndpoint, URL: arg})
			continue
		}
		cluster, name, named := strings.Cut(arg, "/")
		if !named {
			name = service
		}
		if cluster == "" || name == "" || strings.Contains(name, "/") {
			return nil, exit.Usagef("the member %q is neither CLUSTER/NAME nor CLUSTER nor a URL", arg)
		}
		members = append(members, oscar.Member{Type: oscar.MemberOSCAR, ClusterID: cluster, ServiceName: name})
	}
	return members, nil
}

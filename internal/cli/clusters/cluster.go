package clusters

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type clusterCordonCmd struct {
	ID string
}

// Cordon is `oscarfed cluster cordon`.
func Cordon(a *command.App) *cobra.Command {
	var c clusterCordonCmd
	return &cobra.Command{
		Use:     "cordon CLUSTER",
		Short:   "Place nothing new on a cluster",
		Long:    "Place nothing new on a cluster. What is there goes on.",
		Example: "  oscarfed cluster cordon oscar-cluster-a",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ID = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
}

func (c *clusterCordonCmd) Run(ctx context.Context, a *command.App) error {
	return setState(ctx, a, c.ID, v1.ClusterCordoned)
}

type clusterPauseCmd struct {
	ID string
}

// Pause is `oscarfed cluster pause`.
func Pause(a *command.App) *cobra.Command {
	var c clusterPauseCmd
	return &cobra.Command{
		Use:     "pause CLUSTER",
		Short:   "Change nothing on a cluster",
		Long:    "Change nothing on a cluster until it resumes.",
		Example: "  oscarfed cluster pause oscar-cluster-a",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ID = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
}

func (c *clusterPauseCmd) Run(ctx context.Context, a *command.App) error {
	return setState(ctx, a, c.ID, v1.ClusterPaused)
}

type clusterActivateCmd struct {
	ID string
}

// Activate makes one of the commands that make a cluster active again.
func Activate(a *command.App, name, short string) *cobra.Command {
	var c clusterActivateCmd
	return &cobra.Command{
		Use:     name + " CLUSTER",
		Short:   short,
		Example: "  oscarfed cluster " + name + " oscar-cluster-a",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ID = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
}

func (c *clusterActivateCmd) Run(ctx context.Context, a *command.App) error {
	return setState(ctx, a, c.ID, v1.ClusterActive)
}

type clusterReadmitCmd struct {
	ID string
}

// Readmit is `oscarfed cluster readmit`.
func Readmit(a *command.App) *cobra.Command {
	var c clusterReadmitCmd
	return &cobra.Command{
		Use:     "readmit CLUSTER",
		Short:   "Give a cluster its rights again",
		Long:    "Give a cluster its rights again that lost them, since it wrote too much. One that was paused or cordoned is so again.",
		Example: "  oscarfed cluster readmit oscar-cluster-a",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ID = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
}

func (c *clusterReadmitCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	now, err := api.ReadmitCluster(ctx, c.ID)
	if err != nil {
		return err
	}
	return a.Print(now, func() *output.Table { return clusterTable(a, []v1.Cluster{*now}) })
}

func setState(ctx context.Context, a *command.App, id, state string) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	c, err := api.SetClusterState(ctx, id, state)
	if err != nil {
		return err
	}
	return a.Print(c, func() *output.Table { return clusterTable(a, []v1.Cluster{*c}) })
}

type clusterAddCmd struct {
	ID            string
	OscarEndpoint string
	SSLVerify     bool
	Label         map[string]string
	AllowedGroup  []string
}

// Add is `oscarfed cluster add`.
func Add(a *command.App) *cobra.Command {
	var c clusterAddCmd
	cmd := &cobra.Command{
		Use:     "add CLUSTER OSCAR-URL",
		Short:   "Register a cluster",
		Long:    "Register a cluster. Its syncer then joins under that name. OSCAR-URL is the address of its OSCAR Manager.",
		Example: "  oscarfed cluster add oscar-cluster-a https://oscar-a.example.org --label site=upv",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ID = args[0]
			c.OscarEndpoint = args[1]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.YesOrNo(&c.SSLVerify, "ssl-verify", "Whether the certificate of that address is checked.")
	f.Labels(&c.Label, "label", "Label of the cluster; may be repeated.")
	f.List(&c.AllowedGroup, "allowed-group", "GROUP", "Group whose members may use the cluster; may be repeated. Everybody when none is given.")
	return cmd
}

func (c *clusterAddCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	added, err := api.RegisterCluster(ctx, v1.ClusterSpec{
		ClusterID: c.ID, Endpoint: c.OscarEndpoint, SSLVerify: new(c.SSLVerify), Labels: c.Label, AllowedGroups: c.AllowedGroup,
	})
	if err != nil {
		return err
	}
	return a.Print(added, func() *output.Table { return clusterTable(a, []v1.Cluster{*added}) })
}

type clusterSetCmd struct {
	ID            string
	OscarEndpoint string
	SSLVerify     *bool
	Label         map[string]string
	AllowedGroup  []string
	AllGroups     bool
}

// Set is `oscarfed cluster set`.
func Set(a *command.App) *cobra.Command {
	var c clusterSetCmd
	cmd := &cobra.Command{
		Use:     "set CLUSTER",
		Short:   "Change what was said of a cluster",
		Long:    "Change what was said of a cluster. What is not named stays.",
		Example: "  oscarfed cluster set oscar-cluster-a --label site=upv --label gpu=yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ID = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.Text(&c.OscarEndpoint, "oscar-endpoint", "", "", "URL", "Address of its OSCAR Manager.")
	f.Maybe(&c.SSLVerify, "ssl-verify", "Whether the certificate of that address is checked.")
	f.Labels(&c.Label, "label", "Labels of the cluster, in place of those that it has; may be repeated.")
	f.List(&c.AllowedGroup, "allowed-group", "GROUP", "Groups whose members may place on the cluster, in place of those that were named; may be repeated.")
	f.BoolVarP(&c.AllGroups, "all-groups", "", false, "Let members of every group place on the cluster.")
	return cmd
}

func (c *clusterSetCmd) Run(ctx context.Context, a *command.App) error {
	switch {
	case c.AllGroups && len(c.AllowedGroup) > 0:
		return exit.Usagef("--all-groups and --allowed-group contradict each other")
	case c.OscarEndpoint == "" && c.SSLVerify == nil && c.Label == nil && len(c.AllowedGroup) == 0 && !c.AllGroups:
		return exit.Usagef("nothing is to be set; see oscarfed cluster set --help")
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	changed, err := api.EditCluster(ctx, c.ID, func(s *v1.ClusterSpec) {
		if c.OscarEndpoint != "" {
			s.Endpoint = c.OscarEndpoint
		}
		if c.SSLVerify != nil {
			s.SSLVerify = c.SSLVerify
		}
		if c.Label != nil {
			s.Labels = c.Label
		}
		if len(c.AllowedGroup) > 0 || c.AllGroups {
			s.AllowedGroups = c.AllowedGroup
		}
	})
	if err != nil {
		return err
	}
	return a.Print(changed, func() *output.Table { return clusterTable(a, []v1.Cluster{*changed}) })
}

type clusterListCmd struct{}

// List is `oscarfed cluster list`.
func List(a *command.App) *cobra.Command {
	var c clusterListCmd
	return &cobra.Command{
		Use:     "list",
		Short:   "The registered clusters",
		Example: "  oscarfed cluster list",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
}

func (clusterListCmd) Run(ctx context.Context, a *command.App) error {
	return listClusters(ctx, a, &command.Listing{})
}

func listClusters(ctx context.Context, a *command.App, l *command.Listing) error {
	return command.PrintList(ctx, a, l, command.Kind[v1.Cluster]{
		Fetch: func(ctx context.Context, api *client.Client) ([]v1.Cluster, error) { return api.Clusters(ctx) },
		Table: func(list []v1.Cluster) *output.Table { return clusterTable(a, list) },
		Event: v1.EventCluster, Name: func(c v1.Cluster) string { return c.ClusterID },
		Of: func(_ context.Context, _ *client.Client, e *v1.Event) (v1.Cluster, error) {
			return command.EventOf(e.Cluster)
		},
	})
}

type getClustersCmd struct{ command.Listing }

// Get is `oscarfed get clusters`.
func Get(a *command.App) *cobra.Command {
	var c getClustersCmd
	cmd := &cobra.Command{
		Use:     "clusters [CLUSTER...]",
		Aliases: []string{"cluster"},
		Short:   "The registered clusters",
		Example: "  oscarfed get clusters -l tier=edge\n" +
			"  oscarfed get clusters -o jsonpath='{range [*]}{.cluster_id} {.alive}{\"\\n\"}{end}'",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Names = args
			return c.Run(cmd.Context(), a)
		},
	}
	c.Flags(command.FlagsOf(cmd))
	return cmd
}

func (c *getClustersCmd) Run(ctx context.Context, a *command.App) error {
	return listClusters(ctx, a, &c.Listing)
}

type clusterRemoveCmd struct {
	command.Asking
	ID      string
	Orphan  bool
	Force   bool
	Wait    bool
	Timeout time.Duration
}

// Remove is `oscarfed cluster remove`.
func Remove(a *command.App) *cobra.Command {
	var c clusterRemoveCmd
	cmd := &cobra.Command{
		Use:   "remove CLUSTER",
		Short: "Take a cluster out and remove it",
		Long:  "Take a cluster out of every federation, and remove it.",
		Example: "  oscarfed cluster remove oscar-cluster-a\n" +
			"  oscarfed cluster remove oscar-cluster-a --force --orphan",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ID = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	c.Asking.Flags(f)
	f.BoolVarP(&c.Orphan, "orphan", "", false, "Keep its services running there, without the federation's marks. Otherwise they are deleted; buckets and objects stay.")
	f.BoolVarP(&c.Force, "force", "", false, "Do not wait for the cluster, which may be gone for good, and delete the federations whose coordinator is there.")
	f.YesOrNo(&c.Wait, "wait", "Wait until the cluster is removed.")
	f.Timeout(&c.Timeout, command.DefaultTimeout, "How long to wait. The work goes on afterwards.")
	return cmd
}

func (c *clusterRemoveCmd) Run(ctx context.Context, a *command.App) error {
	if err := c.Ask(a, "remove cluster "+c.ID+" from every federation"); err != nil {
		return err
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	opts := client.RemoveClusterOptions{Orphan: c.Orphan, Force: c.Force}
	if c.Wait {
		opts.Wait = c.Timeout
	}
	res, err := api.RemoveCluster(ctx, c.ID, opts)
	if err != nil {
		return err
	}
	switch r := res.Cluster; {
	case r == nil && res.Pending == 0:
		a.Sayf("%s is removed", c.ID)
		return nil
	case r == nil:
		a.Sayf("%s is removed; left to do there when it comes back: %s", c.ID, output.Count(res.Pending, "order"))
		return nil
	case r.Removal != nil && r.Removal.Blocked:
		return exit.Errorf(exit.InProgress, "%s is being removed and cannot go on: %s", c.ID, r.Removal.Waits)
	case r.Removal != nil && c.Wait:
		return exit.Errorf(exit.InProgress, "%s is being removed: %s. It goes on by itself", c.ID, r.Removal.Waits)
	}
	a.Sayf("%s is being removed", c.ID)
	return nil
}

// clusterTable has the columns of what the caller is shown.
func clusterTable(a *command.App, list []v1.Cluster) *output.Table {
	if len(list) > 0 && list[0].UID == "" { // to a user
		t := output.NewTable("CLUSTER", "STATE", "ALIVE", "OSCAR", "LABELS", "REASON")
		for _, c := range list {
			t.Row(c.ClusterID, c.State, output.YesNo(c.Alive), c.OscarVersion, labelsOf(c), c.Reason)
		}
		return t
	}
	t := output.NewTable("CLUSTER", "ENDPOINT", "STATE", "ALIVE", "OSCAR", "QUEUE", "LAST SEEN", "LABELS", "GROUPS", "REASON").
		Optional("ENDPOINT", "GROUPS", "LABELS", "OSCAR", "QUEUE")
	for _, c := range list {
		seen := "never"
		switch {
		case c.Alive:
			seen = "now"
		case c.LastSeen != nil:
			seen = output.Age(c.LastSeen.Time, a.Now()) + " ago"
		}
		reason := strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		if c.Revoked != nil {
			reason = strings.TrimPrefix(reason+"; "+c.Revoked.Message, "; ")
		}
		if c.Removal != nil {
			reason = strings.TrimPrefix(reason+"; "+c.Removal.Waits, "; ")
		}
		if n := len(c.Orphans); n > 0 {
			reason = strings.TrimPrefix(reason+"; "+output.Count(n, "held orphan"), "; ")
		}
		for _, u := range c.Unlisted {
			reason = strings.TrimPrefix(reason+"; jobs of "+u.ServiceName+" are not known: "+u.Message, "; ")
		}
		t.Row(c.ClusterID, c.Endpoint, c.State, output.YesNo(c.Alive), c.OscarVersion, fmt.Sprintf("%ds", c.QueueS), seen, labelsOf(c), strings.Join(c.AllowedGroups, ","), reason)
	}
	return t
}

func labelsOf(c v1.Cluster) string {
	labels := make([]string, 0, len(c.Labels))
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		labels = append(labels, k+"="+c.Labels[k])
	}
	return strings.Join(labels, ",")
}

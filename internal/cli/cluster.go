package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

type clusterCmd struct {
	Add    clusterAddCmd    `cmd:"" help:"Register a cluster. Its syncer then joins under that name."`
	List   clusterListCmd   `cmd:"" help:"The registered clusters."`
	Remove clusterRemoveCmd `cmd:"" help:"Remove a cluster that has no replicas."`

	Cordon   clusterCordonCmd   `cmd:"" help:"Place nothing new on a cluster. What is there goes on."`
	Uncordon clusterActivateCmd `cmd:"" help:"End a cordon."`
	Pause    clusterPauseCmd    `cmd:"" help:"Change nothing on a cluster until it resumes."`
	Resume   clusterActivateCmd `cmd:"" help:"End a pause."`
}

type clusterCordonCmd struct {
	ID string `arg:"" help:"Name of the cluster."`
}

func (c *clusterCordonCmd) Run(ctx context.Context, a *app) error {
	return setState(ctx, a, c.ID, "cordoned")
}

type clusterPauseCmd struct {
	ID string `arg:"" help:"Name of the cluster."`
}

func (c *clusterPauseCmd) Run(ctx context.Context, a *app) error {
	return setState(ctx, a, c.ID, "paused")
}

type clusterActivateCmd struct {
	ID string `arg:"" help:"Name of the cluster."`
}

func (c *clusterActivateCmd) Run(ctx context.Context, a *app) error {
	return setState(ctx, a, c.ID, "active")
}

func setState(ctx context.Context, a *app, id, state string) error {
	api, err := a.dial()
	if err != nil {
		return err
	}
	c, err := api.SetClusterState(ctx, id, state)
	if err != nil {
		return err
	}
	return a.print(c, func() *table { return clusterTable(a, []v1.Cluster{*c}) })
}

type clusterAddCmd struct {
	ID            string            `arg:"" help:"Name of the cluster."`
	OscarEndpoint string            `arg:"" help:"Address of its OSCAR Manager."`
	SSLVerify     bool              `name:"ssl-verify" negatable:"" default:"true" help:"Whether the certificate of that address is checked."`
	Label         map[string]string `help:"Label of the cluster; may be repeated." placeholder:"KEY=VALUE"`
	AllowedGroup  []string          `help:"Group whose members may use the cluster; may be repeated. Everybody when none is given." placeholder:"GROUP"`
}

func (c *clusterAddCmd) Run(ctx context.Context, a *app) error {
	api, err := a.dial()
	if err != nil {
		return err
	}
	added, err := api.RegisterCluster(ctx, v1.ClusterSpec{
		ClusterID: c.ID, Endpoint: c.OscarEndpoint, SSLVerify: new(c.SSLVerify), Labels: c.Label, AllowedGroups: c.AllowedGroup,
	})
	if err != nil {
		return err
	}
	return a.print(added, func() *table { return clusterTable(a, []v1.Cluster{*added}) })
}

type clusterListCmd struct{}

func (clusterListCmd) Run(ctx context.Context, a *app) error { return listClusters(ctx, a) }

func listClusters(ctx context.Context, a *app) error {
	api, err := a.dial()
	if err != nil {
		return err
	}
	list, err := api.Clusters(ctx)
	if err != nil {
		return err
	}
	return a.print(list, func() *table { return clusterTable(a, list) })
}

type clusterRemoveCmd struct {
	ID string `arg:"" help:"Name of the cluster."`
}

func (c *clusterRemoveCmd) Run(ctx context.Context, a *app) error {
	api, err := a.dial()
	if err != nil {
		return err
	}
	if err := api.RemoveCluster(ctx, c.ID); err != nil {
		return err
	}
	a.sayf("%s is removed", c.ID)
	return nil
}

func clusterTable(a *app, list []v1.Cluster) *table {
	t := newTable("CLUSTER", "ENDPOINT", "STATE", "ALIVE", "OSCAR", "QUEUE", "LAST SEEN", "LABELS", "REASON")
	for _, c := range list {
		seen := "never"
		switch {
		case c.Alive:
			seen = "now"
		case c.LastSeen != nil:
			seen = age(c.LastSeen.Time, a.now()) + " ago"
		}
		labels := make([]string, 0, len(c.Labels))
		for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
			labels = append(labels, k+"="+c.Labels[k])
		}
		reason := c.Reason
		if n := len(c.Orphans); n > 0 {
			reason = strings.TrimPrefix(reason+"; "+count(n, "held orphan"), "; ")
		}
		t.row(c.ClusterID, c.Endpoint, c.State, yesNo(c.Alive), c.OscarVersion, fmt.Sprintf("%ds", c.QueueS), seen, strings.Join(labels, ","), reason)
	}
	return t
}

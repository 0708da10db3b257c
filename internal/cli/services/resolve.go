package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type resolveCmd struct {
	Place string
	Keep  string
	All   bool
	Kind  string
	command.Asking
}

// Resolve is `oscarfed resolve`.
func Resolve(a *command.App) *cobra.Command {
	var c resolveCmd
	cmd := &cobra.Command{
		Use:   "resolve [CLUSTER/SERVICE]",
		Short: "Take a side after a restore",
		Long: "Take a side where a cluster differs from a store that was restored. CLUSTER/SERVICE is as\n" +
			"describe shows it.",
		Example: "  oscarfed resolve oscar-cluster-a/grayify --keep cluster\n" +
			"  oscarfed resolve --all --kind missing --keep store",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Place = command.Argument(args, 0)
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.Choice(&c.Keep, "keep", "", "Whose side to take: cluster or store.", v1.KeepCluster, v1.KeepStore)
	f.BoolVarP(&c.All, "all", "", false, "All differences for which that side can be taken.")
	f.Text(&c.Kind, "kind", "", "", "KIND", "With --all: only those of this kind (ahead, missing, orphan).")
	f.Required("keep")
	c.Asking.Flags(f)
	return cmd
}

func (c *resolveCmd) Run(ctx context.Context, a *command.App) error {
	if c.All == (c.Place != "") {
		return exit.Usagef("name one CLUSTER/SERVICE, or give --all")
	}
	if c.Kind != "" && (!c.All || !slices.Contains([]string{v1.DifferenceAhead, v1.DifferenceMissing, v1.DifferenceOrphan}, c.Kind)) {
		return exit.Usagef("--kind goes with --all, and is ahead, missing or orphan")
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	places := []string{c.Place}
	if c.All {
		if places, err = c.matching(ctx, api); err != nil {
			return err
		}
	}
	if len(places) > 0 {
		if err := c.Ask(a, fmt.Sprintf("take the side of the %s for %s", c.Keep, strings.Join(places, ", "))); err != nil {
			return err
		}
	}
	done := []v1.Difference{}
	var failed error
	for _, place := range places {
		cluster, service, ok := strings.Cut(place, "/")
		if !ok || cluster == "" || service == "" {
			return exit.Usagef("%q is not CLUSTER/SERVICE", place)
		}
		d, err := api.Resolve(ctx, v1.Resolve{ClusterID: cluster, ServiceName: service, Keep: c.Keep})
		if err != nil {
			if !c.All {
				return err
			}
			if exit.StatusOf(err) == exit.NotFound {
				// What resolves a coordinator's difference may end its whole federation.
				a.Sayf("%s: differs no more", place)
				continue
			}
			a.Sayf("%s: %v", place, err)
			failed = errors.Join(failed, err)
			continue
		}
		done = append(done, *d)
	}
	if err := a.Print(done, func() *output.Table { return differenceTable(done, c.Keep) }); err != nil {
		return err
	}
	if !c.All && len(done) == 1 {
		c.tellOthers(ctx, a, api, &done[0])
	}
	return failed
}

// tellOthers says what else is held in the federation and is not decided about with d.
func (c *resolveCmd) tellOthers(ctx context.Context, a *command.App, api *client.Client, d *v1.Difference) {
	list, err := api.Differences(ctx)
	if err != nil || d.Federation == "" {
		return // it is resolved; oscarfed describe lists what is left
	}
	told := false
	for _, o := range list.Differences {
		covered := c.Keep == v1.KeepCluster && d.Kind == v1.DifferenceAhead && o.Kind == v1.DifferenceAhead &&
			o.ClusterEpoch == d.ClusterEpoch && o.ClusterGeneration <= d.ClusterGeneration
		if o.Federation != d.Federation || o.UID == d.UID || covered {
			continue
		}
		if !told {
			a.Sayf("In federation %s is held besides:", o.GroupID)
			told = true
		}
		a.Sayf("  oscarfed resolve %s/%s --keep cluster|store    (%s)", o.ClusterID, o.ServiceName, o.Kind)
	}
}

// matching lists what --all is about.
func (c *resolveCmd) matching(ctx context.Context, api *client.Client) ([]string, error) {
	list, err := api.Differences(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range list.Differences {
		does := d.KeepStore
		if c.Keep == v1.KeepCluster {
			does = d.KeepCluster
		}
		if does != "" && (c.Kind == "" || c.Kind == d.Kind) {
			out = append(out, d.ClusterID+"/"+d.ServiceName)
		}
	}
	return out, nil
}

// showDifferences is describe without a service.
func showDifferences(ctx context.Context, a *command.App, api *client.Client) error {
	d, err := api.Differences(ctx)
	if err != nil {
		return err
	}
	if a.Form != output.FormTable {
		return output.Encode(a.Stdout, a.Form, d)
	}
	facts := &output.Table{}
	facts.Row("Epoch", d.Epoch)
	switch {
	case d.RestoredAt != nil:
		facts.Row("Restored", output.When(d.RestoredAt.Time, a.Now()))
	default:
		facts.Row("Restored", "never")
	}
	if err := facts.Write(a.Stdout, a.Unbounded().Style()); err != nil {
		return err
	}
	clusters := output.NewTable("CLUSTER", "COMPARED", "SYNCER")
	for _, c := range d.Clusters {
		syncer := "connected"
		if !c.Alive {
			syncer = "away"
			if c.LastSeen != nil {
				syncer += " since " + output.When(c.LastSeen.Time, a.Now())
			}
		}
		compared := "yes"
		if !c.Compared {
			compared = "not yet"
		}
		clusters.Row(c.ClusterID, compared, syncer)
	}
	fmt.Fprintln(a.Stdout)
	if err := clusters.Write(a.Stdout, a.Style()); err != nil {
		return err
	}
	if len(d.Differences) == 0 {
		_, err := fmt.Fprintln(a.Stdout, "\nNothing is held.")
		return err
	}
	return writeDifferences(a.Stdout, a.Style(), d.Differences)
}

// describeHeld adds what is held of one federation.
func describeHeld(ctx context.Context, w io.Writer, style output.Style, api *client.Client, f *v1.Federation) error {
	held := slices.ContainsFunc(deployed(f), func(r v1.Replica) bool { return r.Status.Reason == "AheadOfDesired" })
	if !held {
		return nil
	}
	all, err := api.Differences(ctx)
	if err != nil {
		return err
	}
	list := slices.DeleteFunc(all.Differences, func(d v1.Difference) bool { return d.Federation != f.UID })
	if len(list) == 0 {
		return nil
	}
	return writeDifferences(w, style, list)
}

func writeDifferences(w io.Writer, style output.Style, list []v1.Difference) error {
	fmt.Fprintln(w, "\nHeld (oscarfed resolve CLUSTER/SERVICE --keep cluster|store)")
	return differenceTable(list, "").Write(w, style)
}

// differenceTable shows differences with what each side does, or with what was decided.
func differenceTable(list []v1.Difference, kept string) *output.Table {
	t := output.NewTable("SERVICE", "DIFFERENCE", "STORE", "CLUSTER", "KEEP STORE", "KEEP CLUSTER")
	if kept != "" {
		t = output.NewTable("SERVICE", "DIFFERENCE", "KEPT", "SO")
	}
	generation := func(n int64) string {
		if n == 0 {
			return "-"
		}
		return strconv.FormatInt(n, 10)
	}
	for _, d := range list {
		place := d.ClusterID + "/" + d.ServiceName
		switch kept {
		case v1.KeepStore:
			t.Row(place, d.Kind, kept, d.KeepStore)
		case v1.KeepCluster:
			t.Row(place, d.Kind, kept, d.KeepCluster)
		default:
			t.Row(place, d.Kind, generation(d.StoreGeneration), generation(d.ClusterGeneration), d.KeepStore, d.KeepCluster)
		}
	}
	return t
}

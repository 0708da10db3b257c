package services

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/jobs"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type describeCmd struct {
	Service string
	Cluster string
}

// Describe is `oscarfed describe`.
func Describe(a *command.App) *cobra.Command {
	var c describeCmd
	cmd := &cobra.Command{
		Use:   "describe [SERVICE]",
		Short: "Show a service and what to do about it",
		Long: "Show a service: its graph, the status of each replica, where its data is, and what to do.\n" +
			"Without a name: how the clusters differ from a store that was restored.",
		Example: "  oscarfed describe grayify\n" +
			"  oscarfed describe",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = command.Argument(args, 0)
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.ClusterOf(&c.Cluster)
	return cmd
}

func (c *describeCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	if c.Service == "" {
		return showDifferences(ctx, a, api)
	}
	f, err := federationOf(ctx, api, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	if a.Form != output.FormTable {
		return output.Encode(a.Stdout, a.Form, f)
	}
	style := a.Unbounded().Style()
	var b strings.Builder
	if err := describe(&b, style, f, a.Now()); err != nil {
		return err
	}
	if err := describeHeld(ctx, &b, style, api, f); err != nil {
		return err
	}
	if err := jobs.Describe(ctx, &b, style, api, f); err != nil {
		return err
	}
	_, err = io.WriteString(a.Stdout, b.String())
	return err
}

// describe writes all that is known of a federation in sections; an empty one
// is left out.
func describe(w io.Writer, style output.Style, f *v1.Federation, now time.Time) error {
	facts := &output.Table{}
	facts.Row("Group", f.GroupID)
	facts.Row("Uid", f.UID)
	facts.Row("Owner", f.Owner)
	facts.Row("Phase", fmt.Sprintf("%s, generation %d, %d of %s ready", output.Words(f.Phase), f.Generation, ready(f), output.Count(len(deployed(f)), "replica")))
	if left := leftOfFailed(f.Phase, f.Coordinator.ServiceName); left != "" {
		facts.Row("", left)
	}
	if f.Paused {
		facts.Row("", "paused: nothing is changed on any cluster")
	}
	facts.Row("Topology", f.Topology)
	facts.Row("Delegation", f.Delegation)
	facts.Row("Deployment", f.Deployment)
	facts.Row("Drift", f.Drift)
	if t := f.RefreshToken; t != nil {
		facts.Row("Refresh token", tokenWords(*t))
	}
	facts.Row("Created", output.When(f.CreatedAt.Time, now))
	facts.Row("Changed", output.When(f.ChangedAt.Time, now))

	replicas := replicaTable(ofFailed(f.Phase, f.Replicas))
	for _, part := range []struct {
		title string
		body  *output.Table
	}{
		{"", facts},
		{"Graph (who lists whom)", graph(f)},
		{"Replicas", replicas},
		{"Failed creation", failed(f)},
		{"Inputs and outputs", data(f)},
		{"What to do", advice(f)},
	} {
		if len(part.body.Rows) == 0 {
			continue
		}
		if part.title != "" {
			fmt.Fprintf(w, "\n%s\n", part.title)
		}
		if err := part.body.Write(w, style); err != nil {
			return err
		}
	}
	return nil
}

func address(r v1.Replica) string {
	if r.URL != "" {
		return r.URL
	}
	return r.ClusterID + "/" + r.ServiceName
}

// failed has a line for each replica of a creation that was taken back.
func failed(f *v1.Federation) *output.Table {
	t := &output.Table{}
	if f.Failed == nil {
		return t
	}
	t.Row("rollback " + output.Words(f.Failed.Rollback))
	for _, line := range output.FailedLines(f.Failed.Replicas) {
		t.Row(strings.TrimSpace(line))
	}
	return t
}

// data says where each replica reads and writes.
func data(f *v1.Federation) *output.Table {
	t := &output.Table{}
	for _, r := range f.Replicas {
		for _, in := range r.Inputs {
			t.Row(address(r), "input", in, placeOf(r, in))
		}
		for _, out := range r.Outputs {
			t.Row(address(r), "output", out, placeOf(r, out))
		}
		if st := r.Status; st != nil && st.Inputs != nil {
			can := "can be used"
			if !st.Inputs.Readable {
				can = "cannot be used since " + st.Inputs.At.UTC().Format(time.RFC3339) + ": " + cmp.Or(st.Inputs.Message, st.Inputs.Reason)
			}
			t.Row(address(r), "minio.default of "+f.Coordinator.ClusterID, can)
		}
	}
	return t
}

// placeOf says where an input or output of a replica is; empty when the control plane does not say.
func placeOf(r v1.Replica, path string) string {
	i := slices.IndexFunc(r.Storage, func(s v1.Storage) bool { return strings.HasPrefix(path, s.StorageProvider+":") })
	switch {
	case i < 0:
		return ""
	case r.Storage[i].ClusterID == "":
		return cmp.Or(r.Storage[i].Endpoint, "not known where")
	case r.Storage[i].Endpoint == "":
		return "MinIO of " + r.Storage[i].ClusterID
	}
	return "MinIO of " + r.Storage[i].ClusterID + ", " + r.Storage[i].Endpoint
}

// advice has a line for each replica that needs a person to act.
func advice(f *v1.Federation) *output.Table {
	t := &output.Table{}
	for _, r := range deployed(f) {
		if r.Status.Hint != "" {
			t.Row(address(r)+":", r.Status.Hint)
		}
	}
	return t
}

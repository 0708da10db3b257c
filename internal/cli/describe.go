package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type describeCmd struct {
	Service string
	Cluster string
}

func newDescribeCmd(a *app) *cobra.Command {
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

func (c *describeCmd) Run(ctx context.Context, a *app) error {
	api, err := a.dial()
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
	if a.form != output.FormTable {
		return output.Encode(a.stdout, a.form, f)
	}
	var b strings.Builder
	if err := describe(&b, f, a.now()); err != nil {
		return err
	}
	if err := describeHeld(ctx, &b, api, f); err != nil {
		return err
	}
	if err := describeJobs(ctx, &b, api, f); err != nil {
		return err
	}
	_, err = io.WriteString(a.stdout, b.String())
	return err
}

// describe writes all that is known of a federation in sections; an empty one
// is left out.
func describe(w io.Writer, f *v1.Federation, now time.Time) error {
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
	facts.Row("Created", when(f.CreatedAt.Time, now))
	facts.Row("Changed", when(f.ChangedAt.Time, now))

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
		if err := part.body.Write(w); err != nil {
			return err
		}
	}
	return nil
}

func when(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s ago)", t.UTC().Format(time.RFC3339), output.Age(t, now))
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
			t.Row(address(r), "input", in)
		}
		for _, out := range r.Outputs {
			t.Row(address(r), "output", out)
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

// advice has a line for each replica that needs a person to act.
func advice(f *v1.Federation) *output.Table {
	t := &output.Table{}
	for _, r := range deployed(f) {
		if in := r.Status.Inputs; in != nil && !in.Readable {
			t.Row(address(r)+":", "it gets no jobs until the MinIO of "+f.Coordinator.ClusterID+" can be used from there: "+
				cmp.Or(hintFor(in.Reason, r.ClusterID), "see what its syncer says"))
		}
		if r.Status.Phase == phaseReady {
			continue
		}
		if hint := hintFor(r.Status.Reason, r.ClusterID); hint != "" {
			t.Row(address(r)+":", hint)
		}
	}
	return t
}

// hintFor is what a person can do about a reason; empty when it passes by itself.
func hintFor(reason, cluster string) string {
	switch reason {
	case "NameTaken":
		return "a service of that name is there and is not ours: choose another name, or have its owner delete it"
	case "ForeignBucket":
		return "a bucket of that name is there and is not ours: choose another path, or have its owner delete it"
	case "BucketLeft":
		return "the bucket of an earlier life of the service is there: delete it, or create the service as the same owner"
	case "CredentialRefused", "NotAllowed":
		return "the administrator of " + cluster + " has to check its credentials and who may use it"
	case "DoesNotFit":
		return "ask for less cpu, memory or GPU, or take a cluster with larger nodes"
	case "InputsUnreadable":
		return "see that " + cluster + " reaches the MinIO and the OSCAR of the coordinator's cluster, by the names that they are registered and reported with"
	case "UnsupportedVersion":
		return cluster + " needs OSCAR v4.1 or later"
	case "InvalidService", "CreateFailed", "UpdateFailed":
		return "read the message: the OSCAR of " + cluster + " refused the definition"
	case "NoVote", "SessionLost":
		return "see that the syncer of " + cluster + " runs and reaches the control plane; it catches up by itself"
	case "OscarUnreachable":
		return "see that the OSCAR of " + cluster + " answers; its syncer tries again by itself"
	case "DeleteFailed", "DetachFailed":
		return "read the message: the OSCAR of " + cluster + " keeps the service; it is tried again by itself"
	case "DriftUnfixable":
		return "somebody changes the service on " + cluster + " again and again: stop them, or use drift: report"
	case "MarkLost":
		return "our marks were taken off the service on " + cluster + ": delete it there, and it is created again"
	case "AheadOfDesired":
		return "the service on " + cluster + " is not in the history of the store, which was restored: oscarfed describe lists what differs, oscarfed resolve ends it"
	case "NeedsUserToken":
		return "call oscarfed token refresh with a fresh access token of your own, or give a refresh token: oscarfed token set"
	case "NeedsRefreshToken", "TokenLost":
		return "give another refresh token: oscarfed token set"
	case "TokenHolderAway":
		return "the cluster that holds the refresh token is away; it goes on when that is back"
	case "Paused":
		return cluster + " is paused by its administrator"
	}
	return ""
}

package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type getAuditCmd struct {
	Federation string
	By         string
	Cluster    string
	Request    string
	Limit      int
	Before     string
}

func newGetAuditCmd(a *app) *cobra.Command {
	var c getAuditCmd
	cmd := &cobra.Command{
		Use:   "audit [FEDERATION]",
		Short: "Who did what, and what became of it",
		Long: "Who did what, and what became of it, the newest first. For the administrator.\n" +
			"FEDERATION is the uid or the group of one federation.",
		Example: "  oscarfed get audit --limit 20\n" +
			"  oscarfed get audit grayify --by ann",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Federation = argument(args, 0)
			return c.Run(cmd.Context(), a)
		},
	}
	f := flagsOf(cmd)
	f.text(&c.By, "by", "", "", "SUBJECT", "Only what this subject did.")
	f.text(&c.Cluster, "cluster", "", "", "ID", "Only about this cluster.")
	f.text(&c.Request, "request", "", "", "ID", "Only of this request.")
	f.number(&c.Limit, "limit", 100, "How many at most, up to 1000.")
	f.text(&c.Before, "before", "", "", "ID", "Only entries older than this one.")
	return cmd
}

func (c *getAuditCmd) Run(ctx context.Context, a *app) error {
	api, err := a.dial()
	if err != nil {
		return err
	}
	list, err := api.Audit(ctx, client.AuditQuery{
		Before: c.Before, Limit: c.Limit, Federation: c.Federation, By: c.By, ClusterID: c.Cluster, RequestID: c.Request,
	})
	if err != nil {
		return err
	}
	return a.print(list, func() *output.Table {
		t := output.NewTable("TIME", "BY", "ACTION", "OUTCOME", "GROUP", "GENERATION", "CLUSTER", "DETAIL")
		for i := range list {
			e := &list[i]
			generation := ""
			if e.Generation > 0 {
				generation = strconv.FormatInt(e.Generation, 10)
			}
			t.Row(e.At.UTC().Format(time.RFC3339), e.By, e.Action, e.Outcome, e.GroupID, generation, e.ClusterID, e.Detail)
		}
		return t
	})
}

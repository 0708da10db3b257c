package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type getAuditCmd struct {
	Federation string `arg:"" optional:"" help:"Only about this federation: its uid or group."`
	By         string `help:"Only what this subject did." placeholder:"SUBJECT"`
	Cluster    string `help:"Only about this cluster." placeholder:"ID"`
	Request    string `help:"Only of this request." placeholder:"ID"`
	Limit      int    `default:"100" help:"How many at most, up to 1000."`
	Before     string `help:"Only entries older than this one." placeholder:"ID"`
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

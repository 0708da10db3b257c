package account

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type getUsageCmd struct{}

// GetUsage is `oscarfed get usage`.
func GetUsage(a *command.App) *cobra.Command {
	var c getUsageCmd
	return &cobra.Command{
		Use:     "usage",
		Short:   "What you have in etcd and how much is left",
		Long:    "What you have in etcd and how much is left; for the administrator, what everybody has.",
		Example: "  oscarfed get usage",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
}

func (getUsageCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	usage, err := api.Usage(ctx)
	if err != nil {
		return err
	}
	return a.Print(usage, func() *output.Table { return usageTable(usage) })
}

// usageTable has a line for each account.
func usageTable(usage *v1.Usage) *output.Table {
	t := output.NewTable("ACCOUNT", "USED", "LEFT", "FEDERATIONS", "PARTS", "DESIRED", "HISTORY", "DELETED", "JOBS", "REQUESTS", "FREED", "AUDIT")
	for _, u := range usage.Accounts {
		left := "-"
		if u.LeftBytes != nil {
			left = bytesText(*u.LeftBytes)
		}
		t.Row(u.Subject, bytesText(u.UsedBytes), left, bytesText(u.FederationBytes), bytesText(u.PartBytes), bytesText(u.DesiredBytes),
			bytesText(u.HistoryBytes), bytesText(u.DeletedBytes), bytesText(u.JobBytes), bytesText(u.RequestBytes), bytesText(u.FreedBytes),
			bytesText(u.AuditBytes))
	}
	return t
}

// bytesText is a number of bytes in the largest unit of which it has ten.
func bytesText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%dGi", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%dMi", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%dKi", n>>10)
	}
	return fmt.Sprint(n)
}

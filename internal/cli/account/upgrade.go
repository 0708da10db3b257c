package account

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type finishUpgradeCmd struct{}

// FinishUpgrade is `oscarfed finish-upgrade`.
func FinishUpgrade(a *command.App) *cobra.Command {
	var c finishUpgradeCmd
	return &cobra.Command{
		Use:   "finish-upgrade",
		Short: "Let the control plane write the store as its new version does",
		Long: "Let the control plane write the store as its new version does, once every instance is upgraded.\n" +
			"Until then the version before can come back; afterwards it does not start.\n" +
			"Refused while an older instance runs. It may be run again.",
		Example: "  oscarfed finish-upgrade",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
}

func (finishUpgradeCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	done, err := api.FinishUpgrade(ctx)
	if err != nil {
		return err
	}
	a.Sayf("the store is written in form %d: a control plane that does not read it cannot come back without a restore", done.Form)
	return a.Print(done, func() *output.Table {
		t := output.NewTable("FORM")
		t.Row(strconv.Itoa(done.Form))
		return t
	})
}

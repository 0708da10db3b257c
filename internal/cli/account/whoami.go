package account

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type whoAmICmd struct{}

// WhoAmI is `oscarfed whoami`.
func WhoAmI(a *command.App) *cobra.Command {
	var c whoAmICmd
	return &cobra.Command{
		Use:     "whoami",
		Short:   "Show who the API takes you for",
		Example: "  oscarfed whoami\n  oscarfed whoami -o jsonpath={.subject}",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
}

func (whoAmICmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	who, err := api.WhoAmI(ctx)
	if err != nil {
		return err
	}
	return printWho(a, who)
}

// printWho prints who a caller is.
func printWho(a *command.App, who *v1.WhoAmI) error {
	return a.Print(who, func() *output.Table {
		t := output.NewTable("SUBJECT", "NAME", "ISSUER", "GROUPS", "RIGHTS", "UNTIL")
		until := "-"
		if who.TokenExpiresAt != nil {
			until = who.TokenExpiresAt.UTC().Format(time.RFC3339)
		}
		t.Row(who.Subject, cmp.Or(who.Name, "-"), cmp.Or(who.Issuer, "-"), cmp.Or(strings.Join(who.Groups, ","), "-"), strings.Join(who.Rights, ","), until)
		return t
	})
}

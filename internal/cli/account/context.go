package account

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type contextListCmd struct{}

// ContextList is `oscarfed context list`.
func ContextList(a *command.App) *cobra.Command {
	var c contextListCmd
	return &cobra.Command{
		Use:         "list",
		Annotations: map[string]string{command.OfConfiguration: "yes"},
		Short:       "The contexts of the configuration file",
		Example:     "  oscarfed context list",
		RunE:        func(*cobra.Command, []string) error { return c.Run(a) },
	}
}

func (contextListCmd) Run(a *command.App) error {
	list, err := a.Flags.Contexts()
	if err != nil {
		return err
	}
	return a.Print(list, func() *output.Table {
		t := output.NewTable("CONTEXT", "CURRENT", "ENDPOINT", "USER", "CREDENTIAL")
		for _, c := range list {
			t.Row(c.Name, output.YesNo(c.Current), c.Endpoint, c.User, c.PasswordFile+c.TokenFile+c.LoginFile)
		}
		return t
	})
}

type contextUseCmd struct{ name string }

// ContextUse is `oscarfed context use`.
func ContextUse(a *command.App) *cobra.Command {
	var c contextUseCmd
	return &cobra.Command{
		Use:         "use CONTEXT",
		Annotations: map[string]string{command.OfConfiguration: "yes"},
		Short:       "Make a context the current one",
		Example:     "  oscarfed context use site",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.name = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
}

func (c *contextUseCmd) Run(ctx context.Context, a *command.App) error {
	if err := a.Flags.UseContext(ctx, c.name); err != nil {
		return err
	}
	a.Sayf("%s is the current context", c.name)
	return nil
}

type contextSetCmd struct{ name string }

// ContextSet is `oscarfed context set`.
func ContextSet(a *command.App) *cobra.Command {
	var c contextSetCmd
	return &cobra.Command{
		Use:         "set CONTEXT",
		Annotations: map[string]string{command.OfConfiguration: "yes"},
		Short:       "Make or change a context",
		Long: "Make or change a context: what --endpoint, --user, --password-file, --token-file and --ca-file say.\n" +
			"With another endpoint it has none of the credentials from before. A login that it has no longer is ended.\n" +
			"The file is readable by you alone, and has the names of files with credentials, not what is in them.",
		Example: "  oscarfed context set site --endpoint https://federation.example.org --token-file ~/.token",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.name = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
}

func (c *contextSetCmd) Run(ctx context.Context, a *command.App) error {
	left, err := a.Flags.SetContext(ctx, c.name)
	if err != nil {
		return err
	}
	a.Sayf("context %s is set", c.name)
	if left.Endpoint != "" {
		a.Sayf("what it had to log in with was for %s, and is left out", left.Endpoint)
	}
	if left.Login.LoginFile == "" {
		return nil
	}
	a.Sayf("it has no login at %s any more", left.Login.Endpoint)
	return endLogin(ctx, a, left.Login, func(context.Context) error { return nil })
}

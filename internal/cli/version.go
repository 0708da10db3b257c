package cli

import (
	"context"

	"github.com/spf13/cobra"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/version"
)

type versionCmd struct {
	Client bool
}

func newVersionCmd(a *command.App) *cobra.Command {
	var c versionCmd
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program and of the API",
		Example: "  oscarfed version\n" +
			"  oscarfed version --client",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
	f := command.FlagsOf(cmd)
	f.BoolVarP(&c.Client, "client", "", false, "Only this program's version: the API is not asked.")
	return cmd
}

// versions is what the command prints.
type versions struct {
	Client clientVersion `json:"client"`
	// Server is absent when the API was not asked.
	Server *v1.Info `json:"server,omitempty"`
}

type clientVersion struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	Arch    string `json:"arch"`
}

func (c *versionCmd) Run(ctx context.Context, a *command.App) error {
	mine := version.Get()
	v := versions{Client: clientVersion{Version: mine.Version, Commit: mine.Commit, Go: mine.Go, Arch: mine.Arch}}
	var asking error
	if !c.Client {
		if api, err := a.Dial(); err != nil {
			asking = err
		} else {
			v.Server, asking = api.Info(ctx)
		}
	}
	err := a.Print(v, func() *output.Table {
		t := output.NewTable("", "VERSION", "COMMIT", "DETAILS")
		t.Row("client", mine.Version, mine.Commit, mine.Go+" "+mine.Arch)
		if v.Server != nil {
			t.Row("server", v.Server.OscarfedVersion, v.Server.GitCommit, "OSCAR API "+v.Server.Version+", control plane "+v.Server.ControlPlane)
		}
		return t
	})
	if err != nil {
		return err
	}
	return asking
}

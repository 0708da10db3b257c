package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/oscarfed/oscarfed/internal/cli/command"
)

type manCmd struct{ dir string }

// newManCmd is for those who package the program.
func newManCmd(*command.App) *cobra.Command {
	var c manCmd
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write a man page for each command",
		Example: "  oscarfed man /usr/local/share/man/man1",
		Hidden:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.dir = args[0]
			return c.Run(cmd.Root())
		},
	}
}

func (c *manCmd) Run(root *cobra.Command) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil { //nolint:gosec // man pages are for everybody
		return err
	}
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{Title: "OSCARFED", Section: "1", Source: "oscarfed", Manual: "oscarfed"}, c.dir)
}

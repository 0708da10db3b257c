package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/oscarfed/oscarfed/internal/cli/command"
)

// Markdown writes a page of all commands of this package: of each what it does, its examples and
// its own flags; those that all have once.
func Markdown(w io.Writer) error {
	root := newRoot(&command.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}, nil)
	var b strings.Builder
	for _, cmd := range runnable(root) {
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", cmd.CommandPath(), strings.TrimSpace(manualOf(cmd)))
	}
	fmt.Fprintf(&b, "\n## Flags of all commands\n\n```text\n%s```\n", root.PersistentFlags().FlagUsagesWrapped(command.HelpWidth))
	_, err := io.WriteString(w, b.String())
	return err
}

func manualOf(cmd *cobra.Command) string {
	var b strings.Builder
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(&b, "%s\n\n", text)
	command.Head(&b, cmd)
	command.OwnFlags(&b, cmd)
	return b.String()
}

// runnable are the commands that do something, in the order of their paths.
func runnable(cmd *cobra.Command) (list []*cobra.Command) {
	for _, child := range cmd.Commands() {
		switch {
		case child.Hidden || child.Name() == "help" || child.Name() == "completion":
		case child.HasSubCommands():
			list = append(list, runnable(child)...)
		default:
			list = append(list, child)
		}
	}
	return list
}

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

package docs_test

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/internal/cli"
	"github.com/oscarfed/oscarfed/internal/cli/command"
)

// manual is a page of all commands of the CLI: of each what it does, its examples and its own flags;
// those that all have once.
func manual() string {
	root := cli.NewRoot(&command.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}, nil)
	var b strings.Builder
	for _, cmd := range runnable(root) {
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", cmd.CommandPath(), strings.TrimSpace(manualOf(cmd)))
	}
	fmt.Fprintf(&b, "\n## Flags of all commands\n\n```text\n%s```\n", root.PersistentFlags().FlagUsagesWrapped(command.HelpWidth))
	return b.String()
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
		case command.IsGroup(child):
			list = append(list, runnable(child)...)
		default:
			list = append(append(list, child), runnable(child)...)
		}
	}
	return list
}

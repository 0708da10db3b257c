package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Usage writes how a command is called: its examples, the commands below it, its own flags, and
// then those that all commands have.
func Usage(cmd *cobra.Command) error {
	var b strings.Builder
	Head(&b, cmd)
	subcommands(&b, cmd)
	OwnFlags(&b, cmd)
	global := cmd.InheritedFlags()
	if !cmd.HasParent() {
		global = cmd.PersistentFlags()
	}
	if global.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags of all commands:\n%s", global.FlagUsagesWrapped(HelpWidth))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help shows more of a command.\n", cmd.CommandPath())
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
	return err
}

// IsGroup says whether a command does nothing but hold others.
func IsGroup(cmd *cobra.Command) bool {
	return cmd.HasAvailableSubCommands() && !strings.Contains(cmd.Use, " ")
}

// Head writes the line of a command and its examples.
func Head(b *strings.Builder, cmd *cobra.Command) {
	b.WriteString("Usage:\n")
	if !IsGroup(cmd) {
		line := cmd.UseLine()
		if cmd.HasAvailableLocalFlags() {
			line += " [FLAGS]"
		}
		fmt.Fprintf(b, "  %s\n", line)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(b, "  %s COMMAND\n", cmd.CommandPath())
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(b, "\nAlso:\n  %s\n", strings.Join(cmd.Aliases, ", "))
	}
	if cmd.HasExample() {
		fmt.Fprintf(b, "\nExamples:\n%s\n", cmd.Example)
	}
}

// OwnFlags writes the flags that a command alone has.
func OwnFlags(b *strings.Builder, cmd *cobra.Command) {
	if flags := cmd.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
		fmt.Fprintf(b, "\nFlags:\n%s", flags.FlagUsagesWrapped(HelpWidth))
	}
}

// subcommands lists what is below a command, under the headings of its groups.
func subcommands(b *strings.Builder, cmd *cobra.Command) {
	list := func(title, group string) {
		begun := false
		for _, child := range cmd.Commands() {
			if child.GroupID != group || !child.IsAvailableCommand() && child.Name() != "help" {
				continue
			}
			if !begun {
				fmt.Fprintf(b, "\n%s\n", title)
				begun = true
			}
			fmt.Fprintf(b, "  %-*s  %s\n", cmd.Commands()[0].NamePadding(), child.Name(), child.Short)
		}
	}
	for _, group := range cmd.Groups() {
		list(group.Title, group.ID)
	}
	list("Commands:", "")
}

// HelpWidth is how wide help is, in columns.
const HelpWidth = 80

package command

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/suggest"
)

// NoSubcommand is the check of a command that only has others below it.
func NoSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			names = append(append(names, child.Name()), child.Aliases...)
		}
	}
	return exit.Usagef("%s has no command %q%s", cmd.CommandPath(), args[0], suggest.Words(args[0], names))
}

// CheckArguments holds arguments to the words of the line of usage: NAME, [NAME], NAME... and
// [NAME...].
func CheckArguments(cmd *cobra.Command, args []string) error {
	words := strings.Fields(cmd.Use)[1:]
	for i, word := range words {
		switch {
		case strings.HasSuffix(strings.TrimSuffix(word, "]"), "..."):
			if len(args) <= i && !strings.HasPrefix(word, "[") {
				return exit.Usagef("%s is missing: %s", strings.TrimSuffix(word, "..."), cmd.UseLine())
			}
			return nil
		case len(args) <= i && !strings.HasPrefix(word, "["):
			return exit.Usagef("%s is missing: %s", word, cmd.UseLine())
		}
	}
	if len(args) > len(words) {
		return exit.Usagef("%q is too much: %s", args[len(words)], cmd.UseLine())
	}
	return nil
}

// Argument is one that may be missing.
func Argument(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

// FlagError says what flag was meant.
func FlagError(cmd *cobra.Command, err error) error {
	wrong, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(wrong.GetSpecifiedName()) < 2 {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return exit.Usagef("%s has no flag --%s%s", cmd.CommandPath(), wrong.GetSpecifiedName(), suggest.Words(wrong.GetSpecifiedName(), slices.Sorted(slices.Values(names))))
}

package services

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/suggest"
)

// Explain explains keys of a definition, and has the commands that explain other things.
func Explain(a *command.App, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [FIELD]",
		Short: "What a key of a definition means, or why a job went where it went",
		Long: "What a key of a definition means: its type, its default, the keys below it. FIELD has dots between keys.\n" +
			"Without FIELD, the keys of a service.",
		Example: "  oscarfed explain federation\n" +
			"  oscarfed explain federation.members.priority\n" +
			"  oscarfed explain job 01a1fda3-fc9e-70a6-b6c0-0c2c788607cf",
		RunE: func(_ *cobra.Command, args []string) error { return explainKey(a, command.Argument(args, 0)) },
	}
	cmd.AddCommand(children...)
	return cmd
}

// KeyNames are the paths of all keys.
func KeyNames() (list []string) {
	for _, k := range fdl.Keys() {
		list = append(list, k.Path)
	}
	return list
}

func explainKey(a *command.App, path string) error {
	all := fdl.Keys()
	below := fdl.Below(path, all)
	if path == "" {
		return a.Print(below, func() *output.Table { return keyTable(below) })
	}
	i := slices.IndexFunc(all, func(k fdl.Key) bool { return k.Path == path })
	if i < 0 {
		return exit.Errorf(exit.NotFound, "no definition has a key %q%s", path, suggest.Words(path, KeyNames()))
	}
	key := all[i]
	if a.Form != output.FormTable {
		return a.Encode(struct {
			fdl.Key
			Keys []fdl.Key `json:"keys,omitempty"`
		}{key, below})
	}
	fmt.Fprintf(a.Stdout, "Key      %s\nType     %s\n", key.Path, key.Type)
	if key.Default != "" {
		fmt.Fprintf(a.Stdout, "Default  %s\n", key.Default)
	}
	fmt.Fprintf(a.Stdout, "\n%s\n", meaningOf(key, len(below) > 0))
	if len(below) == 0 {
		return nil
	}
	fmt.Fprintln(a.Stdout)
	return a.PrintTable(keyTable(below))
}

// meaningOf is what is said of a key; an object without words of its own has them at its keys.
func meaningOf(key fdl.Key, object bool) string {
	if object {
		return cmp.Or(key.Meaning, "Its keys:")
	}
	return cmp.Or(key.Meaning, "OSCAR alone reads it: it is kept and passed on.")
}

func keyTable(keys []fdl.Key) *output.Table {
	t := output.NewTable("KEY", "TYPE", "DEFAULT", "MEANING")
	for _, k := range keys {
		t.Row(k.Path, k.Type, k.Default, k.Meaning)
	}
	return t
}

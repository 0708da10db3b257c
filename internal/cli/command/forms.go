package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

const (
	formsAlso    = "forms also"
	formsWithout = "forms without"
	formsNone    = "forms none"
)

// AlsoForms says which forms a command has besides those of all commands.
func AlsoForms(cmd *cobra.Command, forms ...output.Form) { note(cmd, formsAlso, forms) }

// WithoutForms says which of the forms of all commands a command does not have.
func WithoutForms(cmd *cobra.Command, forms ...output.Form) { note(cmd, formsWithout, forms) }

// NoResult marks a command that prints no result, so that none of the forms means anything.
func NoResult(cmd *cobra.Command) { note(cmd, formsNone, nil) }

func note(cmd *cobra.Command, key string, forms []output.Form) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	words := make([]string, 0, len(forms))
	for _, f := range forms {
		words = append(words, string(f))
	}
	cmd.Annotations[key] = strings.Join(words, " ")
}

// CheckForm refuses a form that a command cannot print, before it has done anything.
func (a *App) CheckForm(cmd *cobra.Command) error {
	has := func(key string) bool {
		return slices.Contains(strings.Fields(cmd.Annotations[key]), string(a.Form))
	}
	switch a.Form {
	case output.FormFDL:
		if !has(formsAlso) {
			return exit.Usagef("-o fdl is for services: oscarfed get services NAME -o fdl")
		}
	case output.FormMermaid, output.FormDot, output.FormSVG:
		if !has(formsAlso) {
			return exit.Usagef("-o %s is for graphs: oscarfed graph SERVICE -o %s", a.Form, a.Form)
		}
	}
	if _, none := cmd.Annotations[formsNone]; none && cmd.Flags().Changed("output") && a.Form != output.FormTable {
		return exit.Usagef("-o %s is not for this command: it has no result to print so", a.Form)
	}
	if has(formsWithout) {
		return exit.Usagef("-o %s is not for this command", a.Form)
	}
	return nil
}

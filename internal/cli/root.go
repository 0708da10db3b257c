package cli

import (
	"cmp"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/cli/settings"
	"github.com/oscarfed/oscarfed/internal/version"
)

// NewRoot makes the command oscarfed with all that is below it.
func NewRoot(a *command.App, more []Command) *cobra.Command {
	root := &cobra.Command{
		Use:           "oscarfed",
		Short:         "Federations of OSCAR clusters",
		Long:          "Federations of OSCAR clusters: one definition, one service on every cluster.",
		Example:       "  oscarfed apply -f service.yaml\n  oscarfed get federations\n  oscarfed describe grayify",
		Version:       version.Get().Version + " " + version.Get().Commit,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.AddGroup(groups()...)
	root.AddCommand(tree(a)...)
	for _, c := range more {
		root.AddCommand(foreign(a, c))
	}
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	root.SetVersionTemplate("oscarfed {{.Version}}\n")
	root.SetFlagErrorFunc(command.FlagError)
	root.PersistentFlags().BoolVar(&a.NoHeaders, "no-headers", false, "Print tables without their head.")
	addGlobalFlags(root, &a.Flags)
	command.PersistentFlagsOf(root).Text(&a.Color, "color", "", command.ColorAuto, "WHEN", "Colours for states: auto (on a terminal, unless NO_COLOR is set), always or never.")
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions([]string{command.ColorAuto, command.ColorAlways, command.ColorNever}, cobra.ShellCompDirectiveNoFileComp))
	root.InitDefaultHelpCmd()
	checkHelp(root)
	root.InitDefaultCompletionCmd()
	prepare(a, root)
	return root
}

// checkHelp refuses to help with what is no command: the help of the nearest one says nothing of it, with status 0.
func checkHelp(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.Name() != "help" {
			continue
		}
		show := cmd.Run
		cmd.Run = nil
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			of, left, err := root.Find(args)
			if err == nil && len(left) > 0 {
				err = command.NoSubcommand(of, left)
			}
			if err != nil {
				return err
			}
			show(cmd, args)
			return nil
		}
	}
}

// addGlobalFlags adds what every command has.
func addGlobalFlags(root *cobra.Command, s *settings.Flags) {
	f := command.PersistentFlagsOf(root)
	f.Text(&s.Endpoint, "endpoint", "", "", "URL", "Address of the control plane's API ("+settings.DefaultEndpoint+").")
	f.Text(&s.User, "user", "", "", "NAME", "Name for basic authentication ("+settings.DefaultUser+").")
	f.Text(&s.PasswordFile, "password-file", "", "", "FILE", "File with the password of that name.")
	f.Text(&s.TokenFile, "token-file", "", "", "FILE", "File with an access token, instead of name and password.")
	f.Text(&s.CAFile, "ca-file", "", "", "FILE", "File with the certificates to trust instead of the system's.")
	f.Text(&s.Context, "context", "", "", "NAME", "Context of the configuration file to use instead of its current one.")
	f.Text(&s.Config, "config", "", "", "FILE", "Configuration file ($XDG_CONFIG_HOME/oscarfed/config.yaml).")
	f.Text(&s.Output, "output", "o", "", "FORM", "Form of the results: table, wide, name, json, yaml, fdl, jsonpath=TEMPLATE or go-template=TEMPLATE (table).")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(output.FormWords(), cobra.ShellCompDirectiveNoFileComp))
}

// prepare gives a command and those below it what all have: the check of their arguments against
// their line of usage, settings, help and completion.
func prepare(a *command.App, cmd *cobra.Command) {
	cmd.DisableFlagsInUseLine = true
	cmd.SetUsageFunc(command.Usage)
	for _, child := range cmd.Commands() {
		prepare(a, child)
	}
	switch {
	case cmd.DisableFlagParsing || cmd.Name() == cobra.ShellCompRequestCmd || cmd.Name() == "help":
	case cmd.RunE == nil && cmd.Run == nil:
		cmd.Args = command.NoSubcommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			return exit.Usagef("%s needs a command", cmd.CommandPath())
		}
	case cmd.RunE != nil:
		cmd.Args = command.CheckArguments
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return completeArgument(a, cmd, args, prefix)
		}
		if cmd.Flags().Lookup("cluster") != nil {
			_ = cmd.RegisterFlagCompletionFunc("cluster", complete(a, clusterNames))
		}
		cmd.RunE = settled(a, cmd.RunE)
	}
}

// settled runs a command once its settings are known.
func settled(a *command.App, run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		a.Running = true
		find := settle
		if cmd.Annotations[command.OfConfiguration] != "" {
			find = settleConfiguration
		}
		if err := find(a, cmd.Flags()); err != nil {
			return err
		}
		if err := a.CheckForm(cmd); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

// settleConfiguration finds the configuration file and the form of the results, and nothing else:
// what a context is made of is given as flags.
func settleConfiguration(a *command.App, _ *pflag.FlagSet) (err error) {
	a.Flags.Config = cmp.Or(a.Flags.Config, os.Getenv(command.EnvironmentName("config")))
	if a.Form, err = output.FormOf(a.Flags.Output, ""); a.Form == output.FormWide {
		a.Wide, a.Form = true, output.FormTable
	}
	return err
}

// settle merges flags, environment and configuration file.
func settle(a *command.App, flags *pflag.FlagSet) (err error) {
	if err := command.TakeEnvironment(flags, os.Getenv); err != nil {
		return err
	}
	if err := a.CheckColor(); err != nil {
		return err
	}
	a.Connection, a.Form, err = a.Flags.Resolve()
	if a.Form == output.FormWide {
		a.Wide, a.Form = true, output.FormTable
	}
	return err
}

// foreign is the command of another package, which gets its arguments as they are.
func foreign(a *command.App, c Command) *cobra.Command {
	return &cobra.Command{
		Use: c.Name, Short: strings.TrimSuffix(c.Help, "."), GroupID: groupOther, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Running = true
			a.Status = c.Run(cmd.Context(), args, command.RawInput(a.Stdin), command.Raw(a.Stdout), a.Stderr)
			return nil
		},
	}
}

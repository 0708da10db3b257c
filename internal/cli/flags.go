package cli

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// defaultTimeout is how long a command waits for the clusters.
const defaultTimeout = time.Minute

// flagSet adds the flags of a command, each with the word that stands for its value in help.
type flagSet struct {
	*pflag.FlagSet

	cmd *cobra.Command
}

func flagsOf(cmd *cobra.Command) flagSet { return flagSet{FlagSet: cmd.Flags(), cmd: cmd} }

// worded is a value whose type is shown as a word such as FILE.
type worded struct {
	pflag.Value

	word string
}

func (w worded) Type() string { return w.word }

// word replaces the name of a Go type in the help of a flag.
func (f flagSet) word(name, word string) {
	flag := f.Lookup(name)
	flag.Value = worded{flag.Value, cmp.Or(word, flag.Value.Type())}
}

// required refuses the command without the flag.
func (f flagSet) required(name string) {
	// It fails for a flag that is not there alone, and the one of that name was added before.
	_ = f.cmd.MarkFlagRequired(name)
}

func (f flagSet) text(p *string, name, short, value, word, help string) {
	f.StringVarP(p, name, short, value, help)
	f.word(name, word)
}

// choice takes one of the values.
func (f flagSet) choice(p *string, name, value, help string, values ...string) {
	*p = value
	f.Var(&oneOf{p, values}, name, help)
	_ = f.cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func (f flagSet) number(p *int, name string, value int, help string) {
	f.IntVar(p, name, value, help)
	f.word(name, "N")
}

// generation takes a number that etcd or a federation counts.
func (f flagSet) generation(p *int64, name, word, help string) {
	f.Int64Var(p, name, 0, help)
	f.word(name, word)
}

func (f flagSet) timeout(p *time.Duration, value time.Duration, help string) {
	f.DurationVar(p, "timeout", value, help)
	f.word("timeout", "TIME")
}

// clusterOf adds --cluster, which tells services of one name apart.
func (f flagSet) clusterOf(p *string) {
	f.text(p, "cluster", "", "", "ID", "Cluster of the service, when several have one of that name.")
}

func (f flagSet) list(p *[]string, name, word, help string) {
	f.StringSliceVar(p, name, nil, help)
	f.word(name, word)
	f.Lookup(name).DefValue = ""
}

func (f flagSet) labels(p *map[string]string, name, help string) {
	f.StringToStringVar(p, name, nil, help)
	f.word(name, "KEY=VALUE")
	f.Lookup(name).DefValue = ""
}

// maybeNumber leaves p nil when the flag is not given.
func (f flagSet) maybeNumber(p **int, name, help string) {
	f.Func(name, help, func(s string) error {
		n, err := strconv.Atoi(s)
		*p = &n
		return err
	})
	f.word(name, "N")
}

// yesOrNo adds --name, which is the default, and --no-name.
func (f flagSet) yesOrNo(p *bool, name string, help string) {
	f.BoolVar(p, name, true, help+" --no-"+name+" does not.")
	f.not(name, func(no bool) { *p = !no })
}

// maybe adds --name and --no-name, and leaves p nil when neither is given.
func (f flagSet) maybe(p **bool, name, help string) {
	f.BoolFunc(name, help+" --no-"+name+" says no.", func(s string) error {
		yes, err := strconv.ParseBool(s)
		*p = &yes
		return err
	})
	f.not(name, func(no bool) { *p = new(!no) })
}

func (f flagSet) not(name string, set func(no bool)) {
	f.BoolFunc("no-"+name, "The opposite of --"+name+".", func(s string) error {
		no, err := strconv.ParseBool(s)
		if err == nil {
			set(no)
		}
		return err
	})
	f.Lookup("no-" + name).Hidden = true
}

// oneOf is a value that is one of several.
type oneOf struct {
	p      *string
	values []string
}

func (o *oneOf) String() string { return *o.p }
func (o *oneOf) Type() string   { return "WORD" }

func (o *oneOf) Set(s string) error {
	if !slices.Contains(o.values, s) {
		return exit.Usagef("it is %s", strings.Join(o.values, " or "))
	}
	*o.p = s
	return nil
}

// fromEnvironment says whether OSCARFED_ and the name in upper snake case sets a flag. These are
// settings: where and as whom. A flag that makes a command do something else is given by the
// caller of that command alone.
func fromEnvironment(flag string) bool {
	switch flag {
	case "endpoint", "user", "password-file", "token-file", "ca-file", "context", "config", "output",
		"cluster", "deployment", "limit", "control-plane", "kubeconfig", "kubernetes", "ssl-verify":
		return true
	}
	return false
}

// environmentName is the variable of a flag.
func environmentName(flag string) string {
	return "OSCARFED_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// takeEnvironment sets the flags of a command that were not given and that the environment has.
func takeEnvironment(flags *pflag.FlagSet, lookup func(string) string) (err error) {
	given := func(names ...string) bool { return slices.ContainsFunc(names, flags.Changed) }
	token, password := given("token-file"), given("user", "password-file")
	flags.VisitAll(func(flag *pflag.Flag) {
		value := lookup(environmentName(flag.Name))
		if err != nil || value == "" || flag.Changed || !fromEnvironment(flag.Name) || flags.Changed("no-"+flag.Name) {
			return
		}
		switch flag.Name { // credentials that are given replace those of the environment as a whole
		case "user", "password-file":
			if token {
				return
			}
		case "token-file":
			if password {
				return
			}
		}
		if failed := flag.Value.Set(value); failed != nil {
			err = exit.Usagef("%s: %w", environmentName(flag.Name), failed)
		}
	})
	return err
}

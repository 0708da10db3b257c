package command

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// DefaultTimeout is how long a command waits for the clusters.
const DefaultTimeout = time.Minute

// Flags adds the flags of a command, each with the word that stands for its value in help.
type Flags struct {
	*pflag.FlagSet

	cmd *cobra.Command
}

// FlagsOf are those of a command.
func FlagsOf(cmd *cobra.Command) Flags { return Flags{FlagSet: cmd.Flags(), cmd: cmd} }

// PersistentFlagsOf are those of a command and of all below it.
func PersistentFlagsOf(cmd *cobra.Command) Flags {
	return Flags{FlagSet: cmd.PersistentFlags(), cmd: cmd}
}

// worded is a value whose type is shown as a word such as FILE.
type worded struct {
	pflag.Value

	word string
}

func (w worded) Type() string { return w.word }

// word replaces the name of a Go type in the help of a flag.
func (f Flags) word(name, word string) {
	flag := f.Lookup(name)
	flag.Value = worded{flag.Value, cmp.Or(word, flag.Value.Type())}
}

// Required refuses the command without the flag.
func (f Flags) Required(name string) {
	// It fails for a flag that is not there alone, and the one of that name was added before.
	_ = f.cmd.MarkFlagRequired(name)
}

// Text takes any text.
func (f Flags) Text(p *string, name, short, value, word, help string) {
	f.StringVarP(p, name, short, value, help)
	f.word(name, word)
}

// File adds --file, -f, which is given once: of two files the last one would be taken, and the other left out
// without a word.
func (f Flags) File(p *string, help string) {
	f.Text(p, "file", "f", "", "FILE", help)
	flag := f.Lookup("file")
	flag.Value = &once{Value: flag.Value}
}

// once is a value that is given once.
type once struct {
	pflag.Value

	given bool
}

func (o *once) Set(s string) error {
	if o.given {
		return errors.New("it is given twice")
	}
	o.given = true
	return o.Value.Set(s)
}

// Choice takes one of the values.
func (f Flags) Choice(p *string, name, value, help string, values ...string) {
	*p = value
	f.Var(&oneOf{p, values}, name, help)
	_ = f.cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// Number takes a number.
func (f Flags) Number(p *int, name string, value int, help string) {
	f.IntVar(p, name, value, help)
	f.word(name, "N")
}

// Generation takes a number that etcd or a federation counts.
func (f Flags) Generation(p *int64, name, word, help string) {
	f.Int64Var(p, name, 0, help)
	f.word(name, word)
}

// Timeout adds --timeout, which is more than 0.
func (f Flags) Timeout(p *time.Duration, value time.Duration, help string) {
	f.timeout(p, 1, value, help)
}

// TimeoutOrNone adds --timeout, of which 0 is as long as it takes.
func (f Flags) TimeoutOrNone(p *time.Duration, value time.Duration, help string) {
	f.timeout(p, 0, value, help)
}

func (f Flags) timeout(p *time.Duration, least, value time.Duration, help string) {
	f.DurationVar(p, "timeout", value, help)
	flag := f.Lookup("timeout")
	flag.Value = &bounded{flag.Value, func() error {
		switch {
		case *p >= least:
			return nil
		case least == 0:
			return errors.New("it must not be less than 0")
		case f.Lookup("no-wait") != nil:
			return errors.New("it must be more than 0; --no-wait does not wait")
		}
		return errors.New("it must be more than 0")
	}}
	f.word("timeout", "TIME")
}

// Limit adds --limit, which is more than 0.
func (f Flags) Limit(p *int, help string) {
	f.IntVar(p, "limit", 100, help)
	flag := f.Lookup("limit")
	flag.Value = &bounded{flag.Value, func() error {
		if *p < 1 {
			return errors.New("it must be more than 0")
		}
		return nil
	}}
	f.word("limit", "N")
}

// bounded is a value that is checked when it is set.
type bounded struct {
	pflag.Value

	check func() error
}

func (b *bounded) Set(s string) error {
	if err := b.Value.Set(s); err != nil {
		return err
	}
	return b.check()
}

// ClusterOf adds --cluster, which tells services of one name apart.
func (f Flags) ClusterOf(p *string) {
	f.Text(p, "cluster", "", "", "ID", "Cluster of the service, when several have one of that name.")
}

// List takes words with commas between them; it may be given several times.
func (f Flags) List(p *[]string, name, word, help string) {
	f.StringSliceVar(p, name, nil, help)
	f.word(name, word)
	f.Lookup(name).DefValue = ""
}

// Labels takes labels; it may be given several times.
func (f Flags) Labels(p *map[string]string, name, help string) {
	f.StringToStringVar(p, name, nil, help)
	f.word(name, "KEY=VALUE")
	f.Lookup(name).DefValue = ""
}

// MaybeNumber leaves p nil when the flag is not given.
func (f Flags) MaybeNumber(p **int, name, help string) {
	f.Func(name, help, func(s string) error {
		n, err := strconv.Atoi(s)
		*p = &n
		return err
	})
	f.word(name, "N")
}

// YesOrNo adds --name, which is the default, and --no-name.
func (f Flags) YesOrNo(p *bool, name string, help string) {
	f.BoolVar(p, name, true, help+" --no-"+name+" does not.")
	f.not(name, func(no bool) { *p = !no })
}

// Maybe adds --name and --no-name, and leaves p nil when neither is given.
func (f Flags) Maybe(p **bool, name, help string) {
	f.BoolFunc(name, help+" --no-"+name+" says no.", func(s string) error {
		yes, err := strconv.ParseBool(s)
		*p = &yes
		return err
	})
	f.not(name, func(no bool) { *p = new(!no) })
}

func (f Flags) not(name string, set func(no bool)) {
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

// EnvironmentName is the variable of a flag.
func EnvironmentName(flag string) string {
	return "OSCARFED_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// TakeEnvironment sets the flags of a command that were not given and that the environment has.
func TakeEnvironment(flags *pflag.FlagSet, lookup func(string) string) (err error) {
	given := func(names ...string) bool { return slices.ContainsFunc(names, flags.Changed) }
	token, password := given("token-file"), given("user", "password-file")
	flags.VisitAll(func(flag *pflag.Flag) {
		value := lookup(EnvironmentName(flag.Name))
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
			err = exit.Usagef("%s: %w", EnvironmentName(flag.Name), failed)
		}
	})
	return err
}

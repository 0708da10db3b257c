package boot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/internal/version"
)

// ErrUsage says that flags, environment or file are wrong.
var ErrUsage = errors.New("usage")

// errDone says that help or the version was printed and nothing is left to do.
var errDone = errors.New("done")

// options are the flags that every daemon has.
type options[T any] struct {
	Config  string           `placeholder:"FILE" help:"YAML file with the same names in snake_case."`
	Version kong.VersionFlag `env:"-" help:"Print the version."`
	Daemon  T                `embed:""`
}

// Load reads the configuration of a daemon: flag over environment (OSCARFED_ and
// the flag's name) over YAML file over default. All its problems are one error
// that wraps ErrUsage. It answers io.EOF when there is nothing to run, because
// help or the version was asked for.
func Load[T interface{ Validate() error }](name, description string, args []string, stdout io.Writer) (T, error) {
	var zero T
	var opts options[T]
	exited := false
	resolver := &fileResolver{}
	parser, err := kong.New(&opts,
		kong.Name(name), kong.Description(description), kong.DefaultEnvars("OSCARFED"),
		kong.Vars{"version": version.Get().Version + " " + version.Get().Commit}, kong.Writers(stdout, io.Discard), kong.Resolvers(resolver),
		kong.Exit(func(int) { exited = true; panic(errDone) }),
	)
	if err != nil {
		return zero, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if err := resolver.load(args); err != nil {
		return zero, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	err = parse(parser, args)
	if exited {
		return zero, io.EOF
	}
	if err == nil {
		err = resolver.unknown(parser.Model)
	}
	if err == nil {
		err = opts.Daemon.Validate()
	}
	if err != nil {
		return zero, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return opts.Daemon, nil
}

// parse turns the exit that kong asks for after help into a return.
func parse(parser *kong.Kong, args []string) (err error) {
	defer func() {
		if r := recover(); r != nil && r != any(errDone) {
			panic(r)
		}
	}()
	_, err = parser.Parse(args)
	return err
}

// maxConfigFile bounds the YAML file in bytes.
const maxConfigFile = 1 << 20

// fileResolver gives kong values of the YAML file for flags that neither the
// command line nor the environment sets.
type fileResolver struct {
	path   string
	values map[string]any
}

// load finds --config among the arguments, or its environment variable.
func (r *fileResolver) load(args []string) error {
	r.path = os.Getenv("OSCARFED_CONFIG")
	for i, a := range args {
		if a == "--config" && i+1 < len(args) {
			r.path = args[i+1]
		}
		if v, ok := strings.CutPrefix(a, "--config="); ok {
			r.path = v
		}
	}
	if r.path == "" {
		return nil
	}
	data, err := readLimited(r.path, maxConfigFile)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(data, &r.values); err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	return nil
}

// Validate implements kong.Resolver.
func (r *fileResolver) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (r *fileResolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	v := r.values[snake(flag.Name)]
	if v == nil {
		return nil, nil
	}
	for _, env := range flag.Envs {
		if _, set := os.LookupEnv(env); set {
			return nil, nil
		}
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var parts []string
	for _, one := range list {
		if one == nil {
			continue
		}
		text, err := plain(one)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", r.path, snake(flag.Name), err)
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return nil, nil
	}
	if ok && (flag.IsSlice() || flag.IsMap()) {
		return kong.JoinEscaped(parts, ','), nil // an item of a list may have commas
	}
	return strings.Join(parts, ","), nil
}

// plain is a value as a person would write it as a flag: a number of YAML is never
// 4.294967296e+09.
func plain(v any) (string, error) {
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case string, bool:
		return fmt.Sprint(v), nil
	}
	return "", errors.New("it is neither a text nor a number")
}

// unknown reports names in the file that no flag has.
func (r *fileResolver) unknown(app *kong.Application) error {
	if _, ok := r.values["contexts"]; ok {
		return fmt.Errorf("%s has contexts, for the commands of oscarfed that ask an API, and no settings of this program: unset OSCARFED_CONFIG, or give another --config", r.path)
	}
	known := map[string]bool{}
	for _, f := range app.Flags {
		known[snake(f.Name)] = true
	}
	var problems []error
	for name := range r.values {
		if !known[name] {
			problems = append(problems, fmt.Errorf("%s: %q is not a setting", r.path, name))
		}
	}
	return errors.Join(problems...)
}

func snake(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

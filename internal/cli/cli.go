package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/cli/settings"
)

// Command is a command that another package implements, such as the one that runs a whole
// federation in this process. It reads its own flags.
type Command struct {
	Name, Help string
	// Run gets what stands after the name, and returns a status.
	Run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

// grammar is the command line.
type grammar struct {
	settings.Flags

	Help helpFlag `short:"h" help:"Show what a command does and its flags."`

	Apply    applyCmd    `cmd:"" help:"Create the services of an FDL on their clusters, all or none; change those that are there."`
	Plan     planCmd     `cmd:"" help:"Show what apply would write to which cluster, and why. Writes nothing; ends with 0 whether something would change or not."`
	Diff     diffCmd     `cmd:"" help:"Show what differs between two generations of a service, or between it and an FDL, and which clusters differ from it now. Ends with 0 whether something differs or not."`
	Get      getCmd      `cmd:"" help:"List federations, replicas, services or clusters."`
	Describe describeCmd `cmd:"" help:"Show a service: its graph, the status of each replica, where its data is, and what to do. Without a name: how the clusters differ from a store that was restored."`
	Resolve  resolveCmd  `cmd:"" help:"Take a side where a cluster differs from a store that was restored."`
	Replica  replicaCmd  `cmd:"" help:"Add and remove members of a service's federation."`
	History  historyCmd  `cmd:"" help:"List the definitions of a service that are kept, newest first."`
	Rollback rollbackCmd `cmd:"" help:"Make an older definition of a service the next one, on all its clusters."`
	Pause    pauseCmd    `cmd:"" help:"Leave the services of a federation alone on their clusters. Changes are applied when it resumes."`
	Resume   resumeCmd   `cmd:"" help:"End a pause."`
	Delete   deleteCmd   `cmd:"" help:"Delete a service on all its clusters. Buckets, volumes and running jobs stay unless ordered otherwise."`
	Job      jobCmd      `cmd:"" help:"Submit, list, show, cancel, replay and resolve jobs."`
	Explain  explainCmd  `cmd:"" help:"Show why a job went where it went."`
	Token    tokenCmd    `cmd:"" help:"Give, show and delete the refresh token by which a service's clusters act for you."`
	Webhook  webhookCmd  `cmd:"" help:"Print how the MinIO of a service's cluster is told to send the events of its input buckets here, so that every upload is placed by the policy. Changes nothing."`
	Cluster  clusterCmd  `cmd:"" help:"Register, list and remove clusters."`
	Audit    auditCmd    `cmd:"" help:"Check an audit that was exported."`
	Version  versionCmd  `cmd:"" help:"Show the version of this program and of the API."`
}

// app is what a command works with.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	form           output.Form
	connection     settings.Connection
	now            func() time.Time
}

// dial connects; commands that need no API do not call it.
func (a *app) dial() (*client.Client, error) {
	c, err := a.connection.Dial()
	if err != nil {
		return nil, err
	}
	c.OnMissing(func(why string) { a.sayf("not in this answer: %s", why) })
	return c, nil
}

// print writes a result: v as JSON or YAML, or what table makes of it.
func (a *app) print(v any, table func() *output.Table) error {
	if a.form != output.FormTable {
		return output.Encode(a.stdout, a.form, v)
	}
	return table().Write(a.stdout)
}

// sayf writes a line that is no result: progress, a warning.
func (a *app) sayf(format string, args ...any) {
	fmt.Fprintln(a.stderr, output.Printable(fmt.Sprintf(format, args...)))
}

// errHelp ends the parsing: what was asked for has been printed.
var errHelp = errors.New("help was shown")

type helpFlag bool

// IgnoreDefault keeps the hook below from running when the flag is not given.
func (helpFlag) IgnoreDefault() {}

// BeforeReset runs when the flag is met, before arguments are checked.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	return errHelp
}

// Run carries out one command line, without the program's name, and returns the
// status to end with. It returns when ctx ends; what was asked of the API goes on.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, more ...Command) int {
	var g grammar
	options := []kong.Option{
		kong.Name("oscarfed"),
		kong.Description("Federations of OSCAR clusters: one definition, one service on every cluster."),
		kong.Writers(stdout, stderr),
		kong.NoDefaultHelp(),
		kong.DefaultEnvars("OSCARFED"),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Vars{"endpoint": settings.DefaultEndpoint, "user": settings.DefaultUser},
	}
	var status int
	for _, c := range more {
		run := func(rest []string) { status = c.Run(ctx, rest, stdin, stdout, stderr) }
		options = append(options, kong.DynamicCommand(c.Name, c.Help, "", &foreignCmd{run: run}, `cmd:""`, `passthrough:""`))
	}
	parser, err := kong.New(&g, options...)
	if err != nil {
		fmt.Fprintln(stderr, "oscarfed:", err)
		return exit.Failed
	}
	call, err := parser.Parse(args)
	switch {
	case errors.Is(err, errHelp):
		return exit.Done
	case err != nil:
		fmt.Fprintf(stderr, "oscarfed: %s\n  oscarfed --help lists the commands\n", output.Printable(err.Error()))
		return exit.Usage
	}
	if foreign, ok := reflect.TypeAssert[*foreignCmd](call.Selected().Target.Addr()); ok {
		foreign.run(foreign.Args)
		return status
	}
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, form: output.FormTable, now: time.Now}
	if a.connection, a.form, err = g.Flags.Resolve(); err == nil {
		call.BindTo(ctx, (*context.Context)(nil))
		err = call.Run(a)
	}
	if err != nil && ctx.Err() != nil {
		err = exit.Errorf(exit.InProgress, "interrupted (%w); what the control plane has begun goes on", context.Cause(ctx))
	}
	if err != nil {
		output.Failure(stderr, a.form, err)
	}
	return exit.StatusOf(err)
}

// foreignCmd takes all arguments of a Command as they are.
type foreignCmd struct {
	Args []string `arg:"" optional:"" help:"Arguments; --help shows them."`
	run  func(rest []string)
}

// isTerminal says whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

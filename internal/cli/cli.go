package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
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

// app is what a command works with.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	flags          settings.Flags
	form           output.Form
	// wide does not cut lines to the width of the terminal, noHeaders leaves out the head of tables.
	wide, noHeaders bool
	connection      settings.Connection
	now             func() time.Time
	// running is set when the command line was understood: an error before it is one of usage.
	running bool
	// status is that of a command of another package.
	status int
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
	if a.form == output.FormTable || a.form == output.FormName {
		return a.printTable(table())
	}
	return a.encode(v)
}

// printTable writes a table, or its first column. On a terminal its lines are not wrapped.
func (a *app) printTable(t *output.Table) error {
	if a.form == output.FormName {
		for _, name := range t.Names() {
			if _, err := fmt.Fprintln(a.stdout, name); err != nil {
				return err
			}
		}
		return nil
	}
	if a.noHeaders {
		t = t.WithoutHead()
	}
	width := 0
	if isTerminal(a.stdout) && !a.wide {
		width = terminalWidth()
	}
	return t.WriteWithin(a.stdout, width)
}

// encode writes a result for programs.
func (a *app) encode(v any) error {
	if a.form == output.FormFDL {
		services, ok := v.([]*oscar.Service)
		if !ok {
			return exit.Usagef("-o fdl is for services: oscarfed get services NAME -o fdl")
		}
		return fdl.Write(a.stdout, services)
	}
	return output.Encode(a.stdout, a.form, v)
}

// sayf writes a line that is no result: progress, a warning.
func (a *app) sayf(format string, args ...any) {
	fmt.Fprintln(a.stderr, output.Printable(fmt.Sprintf(format, args...)))
}

// Run carries out one command line, without the program's name, and returns the
// status to end with. It returns when ctx ends; what was asked of the API goes on.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, more ...Command) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, form: output.FormTable, now: time.Now}
	root := newRoot(a, more)
	root.SetArgs(args)
	called, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return a.status
	case !a.running:
		fmt.Fprintf(stderr, "oscarfed: %s\n  %s\n", output.Printable(err.Error()), wayOut(called))
		return exit.Usage
	case ctx.Err() != nil:
		err = exit.Errorf(exit.InProgress, "interrupted (%w); what the control plane has begun goes on", context.Cause(ctx))
	}
	output.Failure(stderr, a.form, err)
	a.sayCredentials(err)
	return exit.StatusOf(err)
}

// sayCredentials says of a call that was not let in what was wrong with its credentials.
func (a *app) sayCredentials(err error) {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Code() != v1.CodeUnauthenticated || a.form.Encoded() {
		return
	}
	switch c := a.connection; {
	case c.TokenFile != "":
		a.sayf("  the token in %s was refused: it may have expired, or be of an issuer that %s does not trust", c.TokenFile, c.Endpoint)
	case c.LoginFile != "":
		a.sayf("  the login of this context was refused: oscarfed login begins a new one")
	case c.PasswordFile != "":
		a.sayf("  the password in %s was refused: it is not that of user %q at %s", c.PasswordFile, c.User, c.Endpoint)
	default:
		a.sayf("  log in with oscarfed login, or give --user and --password-file, --token-file, or a context in the configuration file")
	}
}

// wayOut says where a command line that was not understood is explained.
func wayOut(cmd *cobra.Command) string {
	if cmd.HasSubCommands() {
		return cmd.CommandPath() + " --help lists the commands"
	}
	return cmd.CommandPath() + " --help shows its flags and examples"
}

// isTerminalInput says whether a person types what r reads.
func isTerminalInput(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && isTerminal(f)
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

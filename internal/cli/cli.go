package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// Command is a command that another package implements, such as the one that runs a whole
// federation in this process. It reads its own flags.
type Command struct {
	Name, Help string
	// Run gets what stands after the name, and returns a status.
	Run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

// Interruptible is a context for Run that SIGINT and SIGTERM end, until stop is called: what has the terminal meanwhile,
// as an editor, keeps SIGINT to itself.
func Interruptible(parent context.Context) (ctx context.Context, stop func()) {
	return command.Interruptible(parent)
}

// Run carries out one command line, without the program's name, and returns the
// status to end with. It returns when ctx ends; what was asked of the API goes on.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, more ...Command) int {
	results := &command.Results{Writer: stdout}
	a := &command.App{Stdin: command.Input(ctx, stdin), Stdout: results, Stderr: stderr, Form: output.FormTable, Now: time.Now}
	root := NewRoot(a, more)
	root.SetArgs(args)
	called, err := root.ExecuteContextC(ctx)
	if err == nil && results.Err != nil {
		a.Running, err = true, results.Err
	}
	switch {
	case err == nil:
		return a.Status
	case !a.Running:
		fmt.Fprintf(stderr, "oscarfed: %s\n  %s\n", output.Printable(err.Error()), wayOut(called))
		return exit.Usage
	case ctx.Err() != nil && exit.StatusOf(err) != exit.Usage: // with that nothing was tried
		err = exit.Errorf(exit.InProgress, "interrupted (%w); what the control plane has begun goes on", context.Cause(ctx))
	}
	output.Failure(stderr, a.Form, err)
	sayEndpoint(a, err)
	sayCredentials(a, err)
	return exit.StatusOf(err)
}

// sayEndpoint says of an API that was not reached, and whose address nobody has given, how it is given.
func sayEndpoint(a *command.App, err error) {
	if e, ok := errors.AsType[*client.Error](err); ok && e.Err != nil && a.Connection.NotTold && !a.Form.Encoded() {
		a.Sayf("  nothing says where the API is, so it was looked for on this machine: give --endpoint, or make a context: oscarfed context set NAME --endpoint URL")
	}
}

// sayCredentials says of a call that was not let in what was wrong with its credentials.
func sayCredentials(a *command.App, err error) {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Code() != v1.CodeUnauthenticated || a.Form.Encoded() {
		return
	}
	switch c := a.Connection; {
	case c.TokenFile != "":
		a.Sayf("  the token in %s was refused: it may have expired, or be of an issuer that %s does not trust, or of a user in none of its groups", c.TokenFile, c.Endpoint)
	case c.LoginFile != "":
		a.Sayf("  the login of this context was refused: oscarfed login begins a new one")
	case c.PasswordFile != "":
		a.Sayf("  the password in %s was refused: it is not that of user %q at %s", c.PasswordFile, c.User, c.Endpoint)
	default:
		a.Sayf("  log in with oscarfed login, or give --user and --password-file, --token-file, or a context in the configuration file")
	}
}

// wayOut says where a command line that was not understood is explained.
func wayOut(cmd *cobra.Command) string {
	if cmd.HasSubCommands() {
		return cmd.CommandPath() + " --help lists the commands"
	}
	return cmd.CommandPath() + " --help shows its flags and examples"
}

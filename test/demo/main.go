// Command demo shows a whole federation on this machine, and checks what it
// shows: three simulated OSCARs, a service created on all of them, one replica
// deleted behind the federation's back and repaired, a job that runs where the
// policy sends it, a creation that is refused and leaves nothing, and a deletion that
// leaves the data.
//
// It runs the oscarfed binary as a user does, and asks each OSCAR by its own API.
// It ends with one summary line and status 0; the first deviation is told in one
// line and status 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/oscarfed/oscarfed/test/await"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	binary := flags.String("oscarfed", "bin/oscarfed", "the binary to show")
	fdl := flags.String("fdl", "examples/grayify/grayify.yaml", "the definition to apply")
	keep := flags.Bool("keep", false, "keep the repaired federation running until interrupted")
	timeout := flags.Duration("timeout", await.Limit, "the demo fails when it takes longer")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	started := time.Now()
	bounded, cancel := context.WithTimeoutCause(ctx, *timeout, fmt.Errorf("the demo took longer than %s", *timeout))
	defer cancel()

	s := &story{out: stdout, binary: *binary, fdl: *fdl}
	err := s.tell(bounded, ctx, *keep)
	if cause := context.Cause(bounded); err != nil && cause != nil {
		err = errors.Join(cause, err)
	}
	if err != nil {
		fmt.Fprintf(stdout, "\ndemo FAILED after %s, in step %q: %v\n", since(started), s.step, err)
		return 1
	}
	fmt.Fprintf(stdout, "\ndemo ok: %s; %d checks in %s\n", s.summary(), s.checks, since(started))
	return 0
}

func since(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Millisecond) }

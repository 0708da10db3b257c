package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("campaign", flag.ContinueOnError)
	flags.SetOutput(stderr)
	c := &campaign{out: stdout, repeats: 5, shrinkTries: 60, shrinkTime: 10 * time.Minute, every: time.Minute}
	flags.DurationVar(&c.length, "time", 10*time.Minute, "no history begins after this time")
	flags.StringVar(&c.seeds, "seeds", "", "a range as 1-100000, or one seed; those that were played already are left out (default all)")
	flags.IntVar(&c.jobs, "jobs", runtime.NumCPU(), "how many histories are played at the same time")
	flags.StringVar(&c.dir, "dir", "build/campaign", "where the state and the failures are kept; remove it to begin a new campaign")
	flags.StringVar(&c.binary, "player", "build/campaign/history.test", "the compiled tests of test/history")
	flags.DurationVar(&c.limit, "limit", 10*time.Minute, "CPU time that a history may take, four times that if weeks pass in it; twenty times that on the clock")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := c.run(ctx); err != nil {
		fmt.Fprintf(stderr, "campaign: %v\n", err)
		return 2
	}
	if len(c.state.Broken) > 0 {
		return 1
	}
	return 0
}

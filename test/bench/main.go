package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// options of a run.
type options struct {
	controlPlane, syncer string
	// profiles is a folder for profiles; empty for none. inside runs the control plane in a
	// process of this program, which can look inside.
	profiles string
	inside   bool
	// yields says that the fleet leaves the CPU to the control plane.
	yields bool
	// size scales the numbers of clusters and replicas, and rounds those of rounds,
	// for a quick look.
	size, rounds float64
	quiet, fill  time.Duration
}

// scaled scales a number of clusters or replicas, and gives at least least.
func (o options) scaled(n, least int) int { return max(int(float64(n)*o.size), least) }

// repeated scales a number of rounds, and gives at least 3.
func (o options) repeated(n int) int { return max(int(float64(n)*o.rounds), 3) }

// section is one group of figures.
type section struct {
	name string
	run  func(ctx context.Context, o options, out *report) error
	// alone is only run when it is asked for by its name.
	alone bool
}

var sections = []section{
	{name: "revisions", run: revisions},
	{name: "create", run: ladder},
	{name: "connected", run: connected},
	{name: "parallel", run: parallel},
	{name: "jobs", run: jobs},
	{name: "scale", run: scale},
	{name: "quiet", run: quiet},
	{name: "definition", run: largest},
	{name: "large", run: large, alone: true},
	{name: "queued", run: queued, alone: true},
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := raiseFileLimit(); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
	}
	if len(args) == 1 && args[0] == fleetCommand {
		return serveFleet(ctx, stdin, stdout, stderr)
	}
	if len(args) > 0 && args[0] == insideCommand {
		return serveInside(ctx, args[1:], stdout, stderr)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var o options
	flags.StringVar(&o.controlPlane, "controlplane", "bin/oscar-controlplane", "the control plane's binary")
	flags.StringVar(&o.syncer, "syncer", "bin/oscar-syncer", "the syncer's binary")
	flags.Float64Var(&o.size, "size", 1, "scales clusters and replicas; 0.1 for a quick look")
	flags.Float64Var(&o.rounds, "rounds", 1, "scales how often each thing is measured")
	flags.DurationVar(&o.fill, "fill", 15*time.Minute, "how long a store of many clusters is filled at most")
	flags.DurationVar(&o.quiet, "quiet", 5*time.Minute, "how long an idle federation is watched")
	flags.StringVar(&o.profiles, "profile", "", "a folder for profiles of server and fleet during creates, jobs, fills, returns and idle time; empty makes none")
	pictures := flags.String("pictures", "", "a folder for the pictures of how costs grow; empty draws none")
	only := flags.String("run", ".", "the sections to run, a regular expression: "+names())
	if err := flags.Parse(args); err != nil {
		return 2
	}
	selected, err := regexp.Compile("^(?:.*(?:" + *only + ").*)$")
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	for _, dir := range []string{o.profiles, *pictures} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return 2
		}
	}
	out := &report{w: stdout, progress: stderr}
	out.machine()
	status, ran := 0, false
	for _, s := range sections {
		if !selected.MatchString(s.name) || s.alone && *only != s.name {
			continue
		}
		ran = true
		began := time.Now()
		out.sayf("%s ...", s.name)
		if err := s.run(ctx, o, out); err != nil {
			fmt.Fprintf(stderr, "bench: %s: %v\n", s.name, err)
			status = 1
		}
		out.sayf("%s took %s", s.name, time.Since(began).Round(time.Second))
		if ctx.Err() != nil {
			return 1
		}
	}
	if !ran {
		fmt.Fprintf(stderr, "bench: no section matches %q; there are %s\n", *only, names())
		return 2
	}
	if err := out.growth(*pictures); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		status = 1
	}
	out.load("at the end")
	return status
}

func names() string {
	var all []string
	for _, s := range sections {
		all = append(all, s.name)
	}
	return strings.Join(all, ", ")
}

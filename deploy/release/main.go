package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var cfg config
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.version, "version", "", "version of the release: v1.2.3 or v1.2.3-rc.1")
	flags.StringVar(&cfg.out, "out", "build/release", "folder for the release; what is there is replaced")
	flags.StringVar(&cfg.ko, "ko", "ko", "the program ko")
	flags.StringVar(&cfg.helm, "helm", "helm", "the program helm")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := build(ctx, cfg, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "release:", err)
		return 1
	}
	return 0
}

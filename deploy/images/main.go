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
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.ko, "ko", "ko", "the program ko")
	flags.StringVar(&cfg.out, "out", "build/images", "folder for the tarballs and lists of contents")
	flags.StringVar(&cfg.release, "release", "", "version of the images; none is devel")
	flags.StringVar(&cfg.repository, "repository", "oscarfed", "what the images' names begin with")
	flags.StringVar(&cfg.caFile, "ca-file", "/etc/ssl/certs/ca-certificates.crt", "CA certificates that the images trust, PEM")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := build(ctx, cfg, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "images:", err)
		return 1
	}
	return 0
}

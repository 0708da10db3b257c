package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/oscarfed/oscarfed/deploy/images"
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
	only := flags.Bool("images", false, "build the images alone, of the working copy as it is; without -version they are devel")
	flags.StringVar(&cfg.imagesConfig.Arch, "arch", "", "architecture of the images, amd64 or arm64; none is both")
	flags.StringVar(&cfg.version, "version", "", "version of the release: v1.2.3 or v1.2.3-rc.1")
	flags.StringVar(&cfg.out, "out", "build/release", "folder for the release; what is there is replaced")
	flags.StringVar(&cfg.helm, "helm", "helm", "the program helm")
	flags.StringVar(&cfg.imagesConfig.Ko, "ko", "ko", "the program ko")
	flags.StringVar(&cfg.imagesConfig.Repository, "repository", "oscarfed", "what the images' names begin with")
	flags.StringVar(&cfg.imagesConfig.CAFile, "ca-file", "/etc/ssl/certs/ca-certificates.crt", "CA certificates that the images trust, PEM")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var err error
	if *only {
		cfg.imagesConfig.Out, cfg.imagesConfig.Release = cfg.out, cfg.version
		err = images.Build(ctx, cfg.imagesConfig, stdout, stderr)
	} else {
		err = build(ctx, cfg, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "release:", err)
		return 1
	}
	return 0
}

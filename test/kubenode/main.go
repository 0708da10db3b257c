//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// config says where things are.
type config struct {
	// kube and node are the folders of `make kube` and `make kube-node`.
	kube, node string
	// images are programs that pods may run: names of images, each with the static program in it.
	images map[string]string
	// dir is the folder of this node: everything that it writes.
	dir string
	// command is run in the node; none is the check.
	command []string
}

// errRefused says that the machine does not allow what a node needs.
var errRefused = errors.New("the machine does not allow it")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var cfg config
	flags := flag.NewFlagSet("kubenode", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.kube, "kube", "", "folder with kube-apiserver and kube-controller-manager")
	flags.StringVar(&cfg.node, "node", "", "folder with kubelet, kube-proxy, kube-scheduler, kubectl and pause")
	flags.StringVar(&cfg.dir, "inside", "", "the folder of a node: this is the first process of its namespaces")
	cfg.images = map[string]string{}
	flags.Func("image", "IMAGE=FILE: an image of one static program that pods can run; may be repeated", func(v string) error {
		name, program, ok := strings.Cut(v, "=")
		if !ok {
			return errors.New("it has no =")
		}
		var err error
		cfg.images[name], err = filepath.Abs(program)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return 2
	}
	cfg.command = flags.Args()
	var err error
	for _, dir := range []*string{&cfg.kube, &cfg.node} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			fmt.Fprintln(stderr, "kubenode:", err)
			return 2
		}
	}
	if cfg.dir != "" {
		err = inside(ctx, cfg, stdout)
	} else {
		err = outside(ctx, &cfg, stdout)
	}
	return status(err, os.Getenv("E2E_KUBE"), stdout, stderr)
}

// status says how it ended.
func status(err error, mode string, stdout, stderr io.Writer) int {
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.status
	}
	switch {
	case errors.Is(err, errRefused) && mode == "auto":
		fmt.Fprintln(stdout, "SKIPPED:", err)
	case err != nil:
		fmt.Fprintln(stderr, "kubenode:", err)
		return 1
	}
	return 0
}

// exitError is the status of a process that has said by itself what went wrong.
type exitError struct{ status int }

func (e *exitError) Error() string { return fmt.Sprintf("status %d", e.status) }

// check says what is missing, and what gives it.
func (c *config) check() error {
	if os.Getuid() != 0 {
		return fmt.Errorf("%w: a node needs root", errRefused)
	}
	for _, p := range []string{"/usr/bin/containerd", "/usr/bin/ctr", "/usr/sbin/runc", "/usr/lib/cni/bridge", "/usr/sbin/iptables", "/usr/sbin/conntrack"} {
		if _, err := os.Stat(p); err != nil {
			return fmt.Errorf("install Debian's containerd, runc, containernetworking-plugins, iptables and conntrack: %w", err)
		}
	}
	for _, p := range []struct{ dir, name, from string }{
		{c.kube, "kube-apiserver", "kube"},
		{c.node, "kubelet", "kube-node"},
		{c.node, "pause", "kube-node"},
	} {
		if _, err := os.Stat(filepath.Join(p.dir, p.name)); err != nil {
			return fmt.Errorf("run `make %s`: %w", p.from, err)
		}
	}
	return nil
}

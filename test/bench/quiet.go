package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/process"
)

// quiet watches a federation of a hundred clusters that nobody asks anything: it
// writes nothing, and that is asserted. One of the syncers is the program itself in
// a process of its own.
func quiet(ctx context.Context, o options, out *report) (err error) {
	w, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	const clusters, members = 100, 50
	if err := w.register(ctx, clusters, clusters+1); err != nil {
		return err
	}
	if err := w.grow(ctx, clusters, 0); err != nil {
		return err
	}
	lone, err := w.loneSyncer(ctx, o, clusters)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lone.close()) }()
	for i := range 2 {
		if _, err := w.create(ctx, fmt.Sprintf("quiet-%d", i), i*members, members); err != nil {
			return err
		}
	}
	// The lone one has a service too.
	if _, err := w.create(ctx, "quiet-lone", clusters, 1); err != nil {
		return err
	}
	// Every cluster reports itself anew at the next full compare, when it has a queue or orphans.
	if _, err := w.eyes.settled(ctx, o.quiet/5); err != nil {
		return err
	}
	rev, _ := w.eyes.newest()
	before, err := lone.usage()
	if err != nil {
		return err
	}
	idle, err := w.idle(ctx, o.quiet)
	if err != nil {
		return err
	}
	after, err := lone.usage()
	if err != nil {
		return err
	}
	now, _ := w.eyes.newest()
	out.heading(fmt.Sprintf("%s of a federation of %d clusters that nobody asks", o.quiet, clusters+1))
	out.table([]string{"what", "figure"}, [][]string{
		{"revisions", fmt.Sprint(now - rev)},
		{"control plane with etcd: memory, CPU", mib(idle.server.anon) + ", " + percent(idle.serverShare)},
		{"one oscar-syncer: memory of its own, resident, CPU", mib(after.anon) + ", " + mib(after.resident) + ", " + percent(after.share(before))},
		{"one syncer of the fleet with its OSCAR: CPU", percent(idle.fleetShare / clusters)},
	})
	if now != rev {
		return fmt.Errorf("an idle federation wrote %d revisions, not 0", now-rev)
	}
	return nil
}

// lone is one oscar-syncer in a process of its own, with a simulated OSCAR that
// it reaches by HTTP.
type lone struct {
	child *process.Child
	dir   string
	stop  func() error
}

func (w *bench) loneSyncer(ctx context.Context, o options, i int) (*lone, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	sim := oscarsim.New(oscarsim.Config{ClusterID: clusterID(i), User: user, Password: password})
	serving, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- sim.Serve(serving, l) }()
	s := &lone{stop: func() error { cancel(); return <-ended }}
	if s.dir, err = os.MkdirTemp("", "oscarfed-bench-"); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	s.child, err = process.Run(process.Command{Path: o.syncer, Args: []string{
		"--cluster-id", clusterID(i), "--etcd-endpoints", w.endpoint(), "--oscar-endpoint", "http://" + l.Addr().String(),
		"--oscar-user", user, "--oscar-password-file", w.passwordFile(), "--identity-file", filepath.Join(s.dir, "identity.age"),
		"--metrics-listen", "", "--log-level", "warn",
	}})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w; make build makes it", err), os.RemoveAll(s.dir), s.stop())
	}
	return s, nil
}

func (s *lone) usage() (usage, error) { return usageOf(s.child.Pid()) }

func (s *lone) close() error {
	return errors.Join(stopChild(s.child), s.stop(), os.RemoveAll(s.dir))
}

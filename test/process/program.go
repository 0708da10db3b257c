package process

import (
	"cmp"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/boot"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/internal/failpoint"
)

// childVar makes the test binary be one of the programs.
const childVar = "OSCARFED_TEST_CHILD"

// The programs.
const (
	ControlPlane = "controlplane"
	Syncer       = "syncer"
	Etcd         = "etcd"
)

// Main runs the tests, or the program that this process was started as, and
// returns the exit status.
func Main(m interface{ Run() int }) int {
	program := os.Getenv(childVar)
	if program == "" {
		return m.Run()
	}
	// The process that started this one holds our standard input open: when it ends, in
	// whatever way, so do we.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	switch program {
	case ControlPlane:
		return boot.ControlPlaneMain(ctx, os.Args[1:], os.Stdout, os.Stderr)
	case Syncer:
		return boot.SyncerMain(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	case Etcd:
		return etcdMain(ctx, os.Args[1:])
	}
	return 2
}

// Start runs one of the programs until the test's end.
func Start(t testing.TB, program string, args ...string) *Child {
	t.Helper()
	c, err := start(program, launch{args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, program, c) })
	return c
}

// launch is how one of the programs is started.
type launch struct {
	// binary is that of another release, or empty.
	binary string
	// failAt is the fail point at which it dies, or empty.
	failAt string
	// ahead is how far its clock is.
	ahead time.Duration
	// log is that of its predecessor, or nil.
	log *Log
	// machine is where it runs, or nil.
	machine Machine
	args    []string
}

func start(program string, l launch) (*Child, error) {
	// Where the tests run may be a pod, whose Kubernetes is not for them.
	env := []string{childVar + "=" + program, "OSCARFED_KUBERNETES=off"}
	if l.failAt != "" {
		env = append(env, failpoint.EnvVar+"="+l.failAt)
	}
	if l.ahead != 0 {
		env = append(env, clock.EnvVar+"="+l.ahead.String())
	}
	return Run(Command{Path: cmp.Or(l.binary, os.Args[0]), Args: l.args, Env: env, Log: l.log, Machine: l.machine})
}

// end kills a program, and shows the end of its log when the test has failed.
func end(t testing.TB, name string, c *Child) {
	t.Helper()
	c.Kill()
	if t.Failed() {
		t.Logf("%s:\n%s", name, c.log.Tail(logShown))
	}
}

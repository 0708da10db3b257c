package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
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

// Limits of a program's start and of its end in order.
const (
	readyTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
)

// Main runs the tests, or the program that this process was started as, and
// returns the exit status.
func Main(m interface{ Run() int }) int {
	program := os.Getenv(childVar)
	if program == "" {
		return m.Run()
	}
	// Whoever started us holds our standard input open: its end is theirs, however
	// they died.
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
		return boot.SyncerMain(ctx, os.Args[1:], os.Stdout, os.Stderr)
	case Etcd:
		return etcdMain(ctx, os.Args[1:])
	}
	return 2
}

// Child is a program in a process of its own.
type Child struct {
	t       testing.TB
	program string
	cmd     *exec.Cmd
	done    chan struct{}
	err     error
	log     *output
	stdin   io.Closer
	// first is the first line that it wrote to standard output.
	first chan string
}

// Start runs a program until the test's end. failAt is a fail point, or empty.
func Start(t testing.TB, program, failAt string, args ...string) *Child {
	t.Helper()
	return StartAhead(t, program, failAt, 0, args...)
}

// Launch runs a program; whoever calls it ends it.
func Launch(t testing.TB, program, failAt string, args ...string) (*Child, error) {
	return launch(t, program, failAt, 0, args...)
}

// StartAhead runs a program, until the test's end, whose clock is ahead.
func StartAhead(t testing.TB, program, failAt string, ahead time.Duration, args ...string) *Child {
	t.Helper()
	c, err := launch(t, program, failAt, ahead, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.End)
	return c
}

func launch(t testing.TB, program, failAt string, ahead time.Duration, args ...string) (*Child, error) {
	c := &Child{t: t, program: program, done: make(chan struct{}), log: &output{}, first: make(chan string, 1)}
	c.cmd = exec.Command(os.Args[0], args...)
	// Where the tests run may be a pod: its Kubernetes is none of ours.
	c.cmd.Env = append(os.Environ(), childVar+"="+program, "OSCARFED_KUBERNETES=off")
	if failAt != "" {
		c.cmd.Env = append(c.cmd.Env, failpoint.EnvVar+"="+failAt)
	}
	if ahead != 0 {
		c.cmd.Env = append(c.cmd.Env, clock.EnvVar+"="+ahead.String())
	}
	c.cmd.Stderr = c.log
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	c.stdin = stdin // held open for as long as the child may run
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		r := bufio.NewReader(stdout)
		line, _ := r.ReadString('\n')
		c.first <- strings.TrimSpace(line)
		_, _ = io.Copy(c.log, r)
		c.err = c.cmd.Wait()
		_ = c.stdin.Close()
		close(c.done)
	}()
	return c, nil
}

// End kills the process, and shows the end of its log when the test has failed.
func (c *Child) End() {
	c.Kill()
	if c.t.Failed() {
		const most = 6000
		log := c.Log()
		c.t.Logf("%s:\n%s", c.program, log[max(0, len(log)-most):])
	}
}

// Ready waits for the first line of standard output.
func (c *Child) Ready() (string, error) {
	select {
	case l := <-c.first:
		if l == "" {
			return "", fmt.Errorf("%s ended before it was ready:\n%s", c.program, c.Log())
		}
		return l, nil
	case <-time.After(readyTimeout):
		return "", fmt.Errorf("%s was not ready within %s:\n%s", c.program, readyTimeout, c.Log())
	}
}

// Line is Ready for a test that cannot go on without it.
func (c *Child) Line() string {
	c.t.Helper()
	l, err := c.Ready()
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

// Kill ends the process by SIGKILL and waits for it.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// Freeze stops the process where it stands, as a machine does that is suspended;
// Thaw lets it go on, unaware of the time that has passed.
func (c *Child) Freeze() { _ = c.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (c *Child) Thaw() { _ = c.cmd.Process.Signal(syscall.SIGCONT) }

// Stop ends the process in order.
func (c *Child) Stop() {
	c.t.Helper()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(stopTimeout):
		c.t.Fatalf("%s did not stop", c.program)
	}
}

// Killed waits until the process is gone, and says whether SIGKILL ended it.
func (c *Child) Killed(limit time.Duration) bool {
	select {
	case <-c.done:
	case <-time.After(limit):
		return false
	}
	var exit *exec.ExitError
	if !errors.As(c.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Log is the end of what it wrote.
func (c *Child) Log() string { return c.log.tail() }

// output keeps the end of what a child wrote.
type output struct {
	mu  sync.Mutex
	buf []byte
}

// maxOutput in bytes is kept of a child, twice as much at times.
const maxOutput = 64 << 10

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = append(o.buf, p...)
	if n := len(o.buf); n > 2*maxOutput {
		o.buf = append(o.buf[:0], o.buf[n-maxOutput:]...)
	}
	return len(p), nil
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.buf)
}

package faults_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/boot"
	"github.com/oscarfed/oscarfed/internal/failpoint"
	"github.com/oscarfed/oscarfed/store/embedded"
)

// childVar makes this test binary be one of the programs, so that a test can kill
// a real process without building another binary.
const childVar = "OSCARFED_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childVar) {
	case "":
		os.Exit(m.Run())
	case "controlplane":
		os.Exit(boot.ControlPlaneMain(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	case "syncer":
		os.Exit(boot.SyncerMain(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	case "etcd":
		os.Exit(etcdMain(os.Args[1:]))
	}
	os.Exit(2)
}

// etcdMain is one member of an etcd cluster: its folder, name, client address,
// peer URL and the initial cluster are the arguments.
func etcdMain(args []string) int {
	s, err := embedded.Start(context.Background(), embedded.Config{
		Dir: args[0], Name: args[1], ListenClient: args[2], ListenPeer: args[3], InitialCluster: args[4],
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, "ready")
	if err := <-s.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// child is a program of this project in a process of its own.
type child struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{}
	err  error
	log  *output
	// first is the first line that it wrote to standard output.
	first chan string
}

// start runs a program until the test's end. failAt is a fail point, or empty.
func start(t testing.TB, program, failAt string, args ...string) *child {
	t.Helper()
	c := launch(t, program, failAt, args...)
	t.Cleanup(func() { c.end(program) })
	return c
}

// launch runs a program; whoever calls it ends it.
func launch(t testing.TB, program, failAt string, args ...string) *child {
	t.Helper()
	c := &child{t: t, done: make(chan struct{}), log: &output{}, first: make(chan string, 1)}
	c.cmd = exec.Command(os.Args[0], args...)
	c.cmd.Env = append(os.Environ(), childVar+"="+program)
	if failAt != "" {
		c.cmd.Env = append(c.cmd.Env, failpoint.EnvVar+"="+failAt)
	}
	c.cmd.Stderr = c.log
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r := bufio.NewReader(stdout)
		line, _ := r.ReadString('\n')
		c.first <- strings.TrimSpace(line)
		_, _ = io.Copy(c.log, r)
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	return c
}

// end kills the process, and shows the end of its log when the test has failed.
func (c *child) end(program string) {
	c.kill()
	if c.t.Failed() {
		c.t.Logf("%s:\n%s", program, c.log.tail())
	}
}

// line waits for the first line of standard output.
func (c *child) line() string {
	c.t.Helper()
	select {
	case l := <-c.first:
		if l == "" {
			c.t.Fatalf("the program ended before it was ready:\n%s", c.log.tail())
		}
		return l
	case <-time.After(time.Minute):
		c.t.Fatalf("the program was never ready:\n%s", c.log.tail())
	}
	return ""
}

// kill ends the process by SIGKILL and waits for it.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// stop ends the process in order.
func (c *child) stop() {
	c.t.Helper()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		c.t.Fatal("the program did not stop")
	}
}

// killed waits until the process is gone, and says whether SIGKILL ended it.
func (c *child) killed(limit time.Duration) bool {
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

// output keeps what a child wrote.
type output struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *output) tail() string {
	const most = 6000
	s := o.String()
	return s[max(0, len(s)-most):]
}

func writeFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

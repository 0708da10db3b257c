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
	"syscall"
	"time"

	"github.com/oscarfed/oscarfed/test/await"
)

// logShown in bytes are in the error about a program.
const logShown = 6000

// Command is a program to start.
type Command struct {
	// Path is that of the binary.
	Path string
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// Machine is where it runs; nil: where the test does.
	Machine Machine
	// Log is what the program's standard error goes to, and its standard output behind
	// the first line; default: a log of its own.
	Log *Log
}

// Machine is where programs run, other than where the test does.
type Machine interface {
	// Take has a program run there when it is started; started is called after that.
	Take(cmd *exec.Cmd) (started func(), err error)
}

// Child is a program in a process of its own.
type Child struct {
	cmd  *exec.Cmd
	log  *Log
	done chan struct{}
	err  error
	// first is the first line that it wrote to standard output.
	first chan string
}

// Run starts a program. Its caller ends it. Signals of the terminal do not reach it, and
// its standard input ends when this process does.
func Run(command Command) (*Child, error) {
	c := &Child{log: command.Log, done: make(chan struct{}), first: make(chan string, 1)}
	if c.log == nil {
		c.log = &Log{}
	}
	c.cmd = exec.Command(command.Path, command.Args...)
	c.cmd.Env = append(os.Environ(), command.Env...)
	c.cmd.Stderr = c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	started := func() {}
	if command.Machine != nil {
		if started, err = command.Machine.Take(c.cmd); err != nil {
			return nil, fmt.Errorf("start %s: %w", command.Path, err)
		}
	}
	err = c.cmd.Start()
	started()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	go func() {
		defer close(c.done)
		r := bufio.NewReader(stdout)
		line, _ := r.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			c.first <- line
		}
		_, _ = io.Copy(c.log, r)
		c.err = c.cmd.Wait()
		_ = stdin.Close()
		if line == "" {
			c.first <- "" // only now the log has all that it said of its end
		}
	}()
	return c, nil
}

// Pid is the process's number.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Log is the end of what it wrote.
func (c *Child) Log() *Log { return c.log }

// Ready waits for the first line of standard output. It is to be called once.
func (c *Child) Ready(ctx context.Context) (string, error) {
	limit := time.NewTimer(await.Limit)
	defer limit.Stop()
	select {
	case line := <-c.first:
		if line == "" {
			return "", fmt.Errorf("%s ended before it was ready:\n%s", c.cmd.Path, c.log.Tail(logShown))
		}
		return line, nil
	case <-limit.C:
		return "", fmt.Errorf("%s was not ready within %s:\n%s", c.cmd.Path, await.Limit, c.log.Tail(logShown))
	case <-ctx.Done():
		return "", fmt.Errorf("%s is not ready: %w\n%s", c.cmd.Path, context.Cause(ctx), c.log.Tail(logShown))
	}
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

// Stop ends the process by SIGTERM, and wants status 0. A process that does not end is
// killed.
func (c *Child) Stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	limit := time.NewTimer(await.Limit)
	defer limit.Stop()
	select {
	case <-c.done:
	case <-limit.C:
		c.Kill()
		return fmt.Errorf("%s did not stop within %s of SIGTERM\n%s", c.cmd.Path, await.Limit, c.log.Tail(logShown))
	}
	if c.err != nil {
		return fmt.Errorf("%s did not end with status 0: %w\n%s", c.cmd.Path, c.err, c.log.Tail(logShown))
	}
	return nil
}

// Ended says whether the process is gone.
func (c *Child) Ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Killed says whether SIGKILL has ended the process.
func (c *Child) Killed() bool {
	if !c.Ended() {
		return false
	}
	exit, ok := errors.AsType[*exec.ExitError](c.err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

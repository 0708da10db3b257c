package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout is how long a federation may take to be ready.
	startTimeout = 30 * time.Second
	// stopTimeout is how long it may take to stop after SIGTERM.
	stopTimeout = 15 * time.Second
	// logLines of a federation that failed are shown.
	logLines = 15
)

// federation is an `oscarfed dev` that runs as a child.
type federation struct {
	readyLine
	dir    string
	binary string
	cmd    *exec.Cmd
	log    *tail
	// exited gets the result of the child once.
	exited chan error
}

// readyLine is what `oscarfed dev --output json` prints when it serves.
type readyLine struct {
	Ready    bool   `json:"ready"`
	API      string `json:"api"`
	User     string `json:"user"`
	Password string `json:"password"`
	Etcd     string `json:"etcd"`
	Clusters []node `json:"clusters"`
}

// start runs the child and waits for its ready line. Its state is below dir.
func start(ctx context.Context, binary, dir string) (*federation, error) {
	// Not CommandContext: the child is stopped by SIGTERM, whatever happens.
	cmd := exec.Command(binary, "dev", "--clusters", "3", "--listen", "127.0.0.1:0", "--etcd-listen", "127.0.0.1:0",
		"--data-dir", filepath.Join(dir, "data"), "--oscar-latency", "1s", "--resync", "2s", "--output", "json")
	f := &federation{dir: dir, binary: binary, cmd: cmd, log: &tail{}, exited: make(chan error, 1)}
	cmd.Stderr = f.log
	// A signal of the terminal is for us: we tell the child when it is time.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	lines := make(chan []byte, 1)
	go func() {
		r := bufio.NewReader(stdout)
		line, _ := r.ReadBytes('\n') // an end without a line is seen as no JSON
		lines <- line
		_, _ = io.Copy(io.Discard, r) // so that the child never blocks on its output
		f.exited <- cmd.Wait()
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case line := <-lines:
		if err := json.Unmarshal(line, &f.readyLine); err != nil || !f.Ready {
			return nil, errors.Join(fmt.Errorf("oscarfed dev said %q instead of its ready line\n%s", line, f.log), f.kill())
		}
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("oscarfed dev is not ready after %s\n%s", startTimeout, f.log), f.kill())
	}
	if err := os.WriteFile(f.passwordFile(), []byte(f.Password), 0o600); err != nil {
		return nil, errors.Join(err, f.kill())
	}
	return f, nil
}

func (f *federation) passwordFile() string { return filepath.Join(f.dir, "password") }

// stop ends the child by SIGTERM and wants status 0.
func (f *federation) stop() error {
	if err := f.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("oscarfed dev is gone already: %w\n%s", err, f.log)
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case err := <-f.exited:
		if err != nil {
			return fmt.Errorf("oscarfed dev did not end with status 0: %w\n%s", err, f.log)
		}
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("oscarfed dev did not stop within %s of SIGTERM\n%s", stopTimeout, f.log), f.kill())
	}
}

func (f *federation) kill() error {
	err := f.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-f.exited //nolint:errcheck // that it was killed is known
	return err
}

// answer is what a command of the CLI left.
type answer struct {
	status         int
	stdout, stderr string
}

// oscarfed runs one command of the CLI against this federation, as a user would.
func (f *federation) oscarfed(ctx context.Context, args ...string) (answer, error) {
	cmd := exec.CommandContext(ctx, f.binary, args...)
	cmd.Env = append(os.Environ(),
		"OSCARFED_ENDPOINT="+f.API, "OSCARFED_USER="+f.User, "OSCARFED_PASSWORD_FILE="+f.passwordFile(),
		"XDG_CONFIG_HOME="+f.dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	a := answer{stdout: stdout.String(), stderr: stderr.String()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		a.status = exit.ExitCode()
		err = nil
	}
	return a, err
}

// tail keeps the last lines that are written to it.
type tail struct {
	mu    sync.Mutex
	lines []string
	open  bool // the last line has no end yet
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range strings.Lines(string(p)) {
		text := strings.TrimSuffix(line, "\n")
		if t.open {
			t.lines[len(t.lines)-1] += text
		} else {
			t.lines = append(t.lines, text)
		}
		t.open = text == line
	}
	if extra := len(t.lines) - logLines; extra > 0 {
		t.lines = t.lines[extra:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return "its log ends with:\n  " + strings.Join(t.lines, "\n  ")
}

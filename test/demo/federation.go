package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/oscarfed/oscarfed/test/process"
)

// logBytes of a federation that failed are shown.
const logBytes = 2000

// federation is an `oscarfed dev` that runs as a child.
type federation struct {
	readyLine
	dir    string
	binary string
	child  *process.Child
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
	// The demo's own time limit does not kill the child: it is stopped by SIGTERM.
	child, err := process.Run(process.Command{Path: binary, Args: []string{
		"dev", "--clusters", "3", "--listen", "127.0.0.1:0", "--etcd-listen", "127.0.0.1:0",
		"--data-dir", filepath.Join(dir, "data"), "--oscar-latency", "1s", "--resync", "2s", "--output", "json",
	}})
	if err != nil {
		return nil, err
	}
	f := &federation{dir: dir, binary: binary, child: child}
	if err := f.ready(ctx); err != nil {
		child.Kill()
		return nil, err
	}
	return f, nil
}

func (f *federation) ready(ctx context.Context) error {
	line, err := f.child.Ready(ctx)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(line), &f.readyLine); err != nil || !f.Ready {
		return fmt.Errorf("oscarfed dev said %q instead of its ready line\n%s", line, f.log())
	}
	return os.WriteFile(f.passwordFile(), []byte(f.Password), 0o600)
}

func (f *federation) passwordFile() string { return filepath.Join(f.dir, "password") }

// stop ends the child by SIGTERM and wants status 0.
func (f *federation) stop() error { return f.child.Stop() }

func (f *federation) log() string { return "its log ends with:\n" + f.child.Log().Tail(logBytes) }

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

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/oscarfed/oscarfed/test/history"
)

// verdict is what became of a history.
type verdict string

const (
	passed verdict = "passed"
	// broken is a history that was played and judged, and failed.
	broken verdict = "broken"
	// crashed is one that ended its process: a panic, a data race, a bubble that is deadlocked.
	crashed verdict = "crashed"
	// hung is one that took more than its share of CPU time, or that stood still.
	hung verdict = "hung"
)

const (
	// recycle is how many histories a child plays. What they leave in its memory ends with it.
	recycle = 50
	// realTime is how many times its limit of CPU time a history may take on the clock: a busy
	// machine gives it little.
	realTime = 20
	// month is how many times the CPU time of another history one may take in which weeks pass.
	month = 4
	// dumpTime is how long a child may take to print its goroutines.
	dumpTime = 20 * time.Second
	// told is how many lines of a failure are told.
	told = 4
)

// player plays plans in a child process, one after the other.
type player struct {
	binary   string
	drawings string
	// limit bounds the CPU time of a history in which no weeks pass.
	limit time.Duration
	// output is what the child has written since the last plan began.
	output *os.File

	child *child
}

// child is one process of the test binary.
type child struct {
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	outcomes chan history.Outcome // closed when the process ends
	played   int
}

func newPlayer(binary, drawings, output string, limit time.Duration) (*player, error) {
	file, err := os.OpenFile(output, os.O_CREATE|os.O_RDWR|os.O_APPEND|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	return &player{binary: binary, drawings: drawings, limit: limit, output: file}, nil
}

func (p *player) close() {
	p.end()
	_ = p.output.Close()
}

// play plays one plan. It fails only when there can be no verdict.
func (p *player) play(ctx context.Context, plan history.Plan) (history.Outcome, verdict, error) {
	unplayed := history.Outcome{Seed: plan.Seed, Clusters: plan.Shape.All()}
	if p.child != nil && p.child.played >= recycle {
		p.end()
	}
	if err := p.output.Truncate(0); err != nil {
		return unplayed, "", err
	}
	if p.child == nil {
		if err := p.start(); err != nil {
			return unplayed, "", err
		}
	}
	p.child.played++
	if err := json.NewEncoder(p.child.stdin).Encode(plan); err != nil && !errors.Is(err, syscall.EPIPE) {
		return unplayed, "", fmt.Errorf("give a plan to the child: %w", err)
	}
	began, worked := time.Now(), p.child.worked()
	limit := p.limit
	if plan.Shape.Month {
		limit *= month
	}
	look := time.NewTicker(max(limit/10, time.Millisecond))
	defer look.Stop()
	for {
		select {
		case outcome, ok := <-p.child.outcomes:
			if !ok {
				p.end()
				unplayed.Real = time.Since(began)
				return unplayed, crashed, nil
			}
			if outcome.Broken {
				return outcome, broken, nil
			}
			return outcome, passed, nil
		case <-look.C:
			if p.child.worked()-worked > limit || time.Since(began) > realTime*limit {
				p.dump()
				unplayed.Real = time.Since(began)
				return unplayed, hung, nil
			}
		case <-ctx.Done():
			p.kill()
			return unplayed, "", context.Cause(ctx)
		}
	}
}

// worked is the CPU time that the child has used; 0 where the system does not tell.
func (c *child) worked() time.Duration {
	proc, err := procfs.NewProc(c.cmd.Process.Pid)
	if err != nil {
		return 0
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0
	}
	return time.Duration(stat.CPUTime() * float64(time.Second))
}

// start starts a child. It has a process group of its own: an interrupt of the terminal is for
// the campaign, which ends its children itself.
func (p *player) start() error {
	fromChild, results, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = results.Close() }()
	cmd := exec.Command(p.binary, "-test.run=^TestHistories$", "-test.v", "-test.timeout=0", "-results=/dev/fd/3", "-drawings="+p.drawings)
	cmd.Env = history.Environ("GOMAXPROCS=1", "GOTRACEBACK=all")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = p.output, p.output, []*os.File{results}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return errors.Join(err, fromChild.Close())
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, fromChild.Close())
	}
	p.child = &child{cmd: cmd, stdin: stdin, outcomes: make(chan history.Outcome)}
	go p.child.read(fromChild)
	return nil
}

// read hands on what the child reports, until the child ends.
func (c *child) read(from io.ReadCloser) {
	defer close(c.outcomes)
	defer func() { _ = from.Close() }()
	lines := json.NewDecoder(from)
	for {
		var o history.Outcome
		if lines.Decode(&o) != nil {
			return
		}
		c.outcomes <- o
	}
}

// end lets the child end: nothing more is to be played.
func (p *player) end() {
	if p.child == nil {
		return
	}
	_ = p.child.stdin.Close()
	p.wait()
}

// wait waits for the child's end. Its status says no more than its outcomes do.
func (p *player) wait() {
	for range p.child.outcomes { // what came too late
	}
	_ = p.child.cmd.Wait()
	p.child = nil
}

// dump makes the child print its goroutines, which ends it.
func (p *player) dump() {
	_ = p.child.cmd.Process.Signal(syscall.SIGQUIT)
	late := time.AfterFunc(dumpTime, func() { _ = p.child.cmd.Process.Kill() })
	defer late.Stop()
	p.wait()
}

func (p *player) kill() {
	_ = p.child.cmd.Process.Kill()
	p.wait()
}

// reason matches the lines of a test's output that say why it failed.
var reason = regexp.MustCompile(`^\s+(judge|history_test|guard|play|clients|etcd|membership|person|canary|restore)\.go:\d+: |^(panic|fatal error|WARNING|SIGQUIT)`)

// calm matches those of them that say how a history went, also when it passed.
var calm = regexp.MustCompile(`: (promises checked at|seed) \d+`)

// why is what the child has written, and the first lines of it that say why the history failed.
func (p *player) why() (output []byte, lines []string, err error) {
	output, err = os.ReadFile(p.output.Name())
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(string(output)) {
		if len(lines) == told {
			break
		}
		if reason.MatchString(line) && !calm.MatchString(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return output, lines, nil
}

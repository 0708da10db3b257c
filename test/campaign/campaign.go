package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/test/history"
)

// campaign plays the histories of a range of seeds.
type campaign struct {
	out         io.Writer
	length      time.Duration
	seeds       string
	jobs        int
	dir         string
	binary      string
	limit       time.Duration
	repeats     int
	shrinkTries int
	shrinkTime  time.Duration
	// every is the pause between two lines of progress.
	every time.Duration

	began time.Time

	mu    sync.Mutex
	state state
	// next is the first seed that was not given to a player in this run, of those up to last.
	next, last uint64
	// played counts the histories of this run.
	played int
}

// run plays until the time or the seeds are over, or ctx ends. What is played then is not counted.
func (c *campaign) run(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return err
	}
	group, working := errgroup.WithContext(ctx)
	for i := range c.jobs {
		group.Go(func() error { return c.work(working, i) })
	}
	ended, quiet := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(quiet)
		c.tell(ended)
	}()
	err := group.Wait()
	close(ended)
	<-quiet
	if err != nil && ctx.Err() == nil {
		return err
	}
	c.close()
	return err
}

// prepare reads the state, and the seeds that are to be played.
func (c *campaign) prepare() (err error) {
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return err
	}
	if c.binary, err = filepath.Abs(c.binary); err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	if c.state, err = readState(c.statePath()); err != nil {
		return err
	}
	seeds, err := parseSeeds(c.seeds)
	c.next, c.last, c.began = seeds.From, seeds.To, time.Now()
	return err
}

func (c *campaign) statePath() string { return filepath.Join(c.dir, "state.json") }

// take is the next seed that is to be played; false when there is none, or no time.
func (c *campaign) take() (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.next <= c.last && c.state.Done.has(c.next) {
		c.next++
	}
	if c.next > c.last || time.Since(c.began) >= c.length {
		return 0, false
	}
	c.next++
	return c.next - 1, true
}

// work plays one seed after the other.
func (c *campaign) work(ctx context.Context, worker int) error {
	drawings := filepath.Join(c.dir, "drawings")
	p, err := newPlayer(c.binary, drawings, filepath.Join(c.dir, fmt.Sprintf("player-%d.out", worker)), c.limit)
	if err != nil {
		return err
	}
	defer p.close()
	for {
		seed, ok := c.take()
		if !ok {
			return nil
		}
		plan := history.Draw(seed)
		outcome, v, err := p.play(ctx, plan)
		if err != nil {
			return err
		}
		if v == passed {
			err = c.count(outcome)
		} else {
			err = c.broken(ctx, p, plan, outcome, v)
		}
		if err != nil {
			return err
		}
	}
}

// count adds a history to the state, and its failure if it failed.
func (c *campaign) count(o history.Outcome, failed ...failure) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.add(o)
	c.state.Broken = append(c.state.Broken, failed...)
	c.played++
	return c.state.write(c.statePath())
}

// sayf writes one line.
func (c *campaign) sayf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, format+"\n", args...)
}

// tell writes a line of progress now and then.
func (c *campaign) tell(ended <-chan struct{}) {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.sayf("%s", c.progress())
		case <-ended:
			return
		}
	}
}

func (c *campaign) progress() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%v: %d histories (%.1f a minute), %d broken, %d revisions, %d jobs, %.1f cluster-days; next seed %d",
		time.Since(c.began).Round(time.Second), c.state.Histories, c.perMinute(), len(c.state.Broken), c.state.Revisions, c.state.Jobs,
		c.state.clusterDays(), c.next)
}

// perMinute is how fast this run is.
func (c *campaign) perMinute() float64 { return float64(c.played) / time.Since(c.began).Minutes() }

// close says what the campaign came to.
func (c *campaign) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.state
	fmt.Fprintf(c.out, "\nhistories           %d (%d in this run)\nbroken              %d\nrevisions checked   %d\njobs                %d\n"+
		"cluster-days        %.1f, virtual\nhistories a minute  %.1f, by %d processes\n",
		s.Histories, c.played, len(s.Broken), s.Revisions, s.Jobs, s.clusterDays(), c.perMinute(), c.jobs)
	for _, f := range s.Broken {
		fmt.Fprintf(c.out, "seed %d %s, see %s: %s\n", f.Seed, f.Verdict, c.folder(f.Seed), strings.Join(f.Lines, " | "))
	}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/test/history"
)

// folder is where a failure is kept.
func (c *campaign) folder(seed uint64) string {
	return filepath.Join(c.dir, "found", fmt.Sprint(seed))
}

// broken keeps a failure and counts it: at once what is known of it, then how often it fails
// again, and its shrunk plan.
func (c *campaign) broken(ctx context.Context, p *player, plan history.Plan, o history.Outcome, v verdict) error {
	k := &keeper{dir: c.folder(plan.Seed), plan: plan, smallest: plan}
	output, lines, err := p.why()
	if err != nil {
		return err
	}
	k.failure = failure{Seed: plan.Seed, Verdict: v, Lines: lines}
	if err := k.keep(output, p.drawings); err != nil {
		return err
	}
	if err := c.count(o, k.failure); err != nil {
		return err
	}
	c.sayf("seed %d %s: %s", plan.Seed, v, strings.Join(lines, " | "))
	if err := c.repeat(ctx, p, k); err != nil {
		return err
	}
	c.sayf("seed %d failed %d of %d times again, %d of %d steps are left: %s", plan.Seed, k.failed, k.repeated, len(k.smallest.Steps), len(plan.Steps), k.dir)
	return nil
}

// repeat plays the plan again, and shrinks it when it fails again. A plan that fails only in some
// orders of goroutines loses steps that it needs nowhere, and keeps some that it does not need.
func (c *campaign) repeat(ctx context.Context, p *player, k *keeper) error {
	var stop error
	fails := func(plan history.Plan) bool {
		if stop != nil {
			return false
		}
		_, v, err := p.play(ctx, plan)
		stop = err
		return err == nil && v != passed
	}
	for range c.repeats {
		k.repeated++
		if fails(k.plan) {
			k.failed++
		}
	}
	if k.failed > 0 {
		end := time.Now().Add(c.shrinkTime)
		k.smallest = history.Shrink(k.plan, c.shrinkTries, func(plan history.Plan) bool { return time.Now().Before(end) && fails(plan) })
	}
	return errors.Join(stop, k.write())
}

// keeper writes the folder of a failure.
type keeper struct {
	dir            string
	failure        failure
	plan, smallest history.Plan
	// failed is how often it failed again, of the times that it was repeated.
	repeated, failed int
}

// keep keeps the output of a failure, its plan and its drawings.
func (k *keeper) keep(output []byte, drawings string) error {
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return err
	}
	drawn, err := filepath.Glob(filepath.Join(drawings, fmt.Sprintf("history-%d-*", k.plan.Seed)))
	if err != nil {
		return err
	}
	for _, path := range drawn {
		if err := os.Rename(path, filepath.Join(k.dir, filepath.Base(path))); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(k.dir, "output.txt"), output, 0o644),
		writePlan(filepath.Join(k.dir, "drawn.json"), k.plan),
		k.write(),
	)
}

// write writes the smallest plan that is known to fail, and what is known of the failure.
func (k *keeper) write() error {
	path := filepath.Join(k.dir, "plan.json")
	text := fmt.Sprintf("seed %d %s\n%s\n\nit failed %d of %d times again\n\ngo test ./test/history -run TestHistories -seed %d -v\ngo test ./test/history -run TestHistories -plan %s -v\n\n%s",
		k.plan.Seed, k.failure.Verdict, strings.Join(k.failure.Lines, "\n"), k.failed, k.repeated, k.plan.Seed, path, k.smallest)
	return errors.Join(writePlan(path, k.smallest), os.WriteFile(filepath.Join(k.dir, "summary.txt"), []byte(text), 0o644))
}

func writePlan(path string, plan history.Plan) error {
	data, err := json.MarshalIndent(plan, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

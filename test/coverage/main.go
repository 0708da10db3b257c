package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/test/history"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// perProcess is how many histories one process plays: one that crashes loses the counts of its
// process.
const perProcess = 10

// decided are the files whose branches are decisions.
func decided() []string {
	return []string{
		"controlplane/decide/*.go", "controlplane/jobs/decide*.go", "controlplane/tokens/decide.go", "syncer/services/plan*.go",
		"syncer/services/situation.go", "syncer/jobs/plan*.go",
	}
}

func main() {
	first := flag.Uint64("first", 1, "the seed of the first history")
	last := flag.Uint64("last", 40, "the seed of the last history")
	work := flag.String("work", "build/coverage", "a folder for what is built")
	all := flag.Bool("all", false, "tell what is excused, too")
	flag.Parse()
	if err := run(os.Stdout, *first, *last, *work, *all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, first, last uint64, work string, all bool) error {
	work, err := filepath.Abs(work)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	binary, err := build(work)
	if err != nil {
		return err
	}
	blocks, taken := blocks{}, map[invariants.Transition]bool{}
	for plans := range slices.Chunk(plans(first, last), perProcess) {
		if err := play(out, binary, work, plans, blocks, taken); err != nil {
			return err
		}
	}
	untrue, err := tellBlocks(out, blocks, newSources("."), excusedBlocks(), all)
	if err != nil {
		return err
	}
	untrue = append(untrue, tellTransitions(out, taken, excusedTransitions(), all)...)
	if len(untrue) > 0 {
		return fmt.Errorf("excused.go is not true:\n%s", strings.Join(untrue, "\n"))
	}
	return nil
}

// build builds the histories with counters in the packages that decide.
func build(work string) (binary string, err error) {
	binary = filepath.Join(work, "history.test")
	var packages []string
	for _, pattern := range decided() {
		packages = append(packages, "./"+filepath.Dir(pattern))
	}
	list := strings.Join(slices.Compact(packages), ",")
	said, err := exec.Command("go", "test", "-c", "-cover", "-covermode=count", "-coverpkg="+list, "-o", binary, "./test/history").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return binary, nil
}

// plans are the trials, and the histories of some seeds.
func plans(first, last uint64) []history.Plan {
	out := history.AllTrials()
	for seed := first; seed <= last; seed++ {
		out = append(out, history.Draw(seed))
	}
	return out
}

// play plays some plans in one process, and adds what they have done. A history that fails has
// made its decisions, too.
func play(out io.Writer, binary, work string, plans []history.Plan, all blocks, taken map[invariants.Transition]bool) error {
	var input bytes.Buffer
	for _, plan := range plans {
		if err := json.NewEncoder(&input).Encode(plan); err != nil {
			return err
		}
	}
	seeds := fmt.Sprintf("seeds %d to %d", plans[0].Seed, plans[len(plans)-1].Seed)
	results, profile := filepath.Join(work, "results"), filepath.Join(work, "profile")
	if err := errors.Join(os.WriteFile(results, nil, 0o644), os.RemoveAll(profile)); err != nil {
		return err
	}
	cmd := exec.Command(binary, "-test.run=^TestHistories$", "-test.timeout=0", "-test.coverprofile="+profile, "-results="+results)
	cmd.Dir, cmd.Stdin, cmd.Env = "test/history", &input, history.Environ()
	said, failed := cmd.CombinedOutput()
	if err := readOutcomes(results, taken); err != nil {
		return err
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return fmt.Errorf("%s have left no counts: %w: %s", seeds, errors.Join(failed, err), said)
	}
	if failed != nil {
		fmt.Fprintf(out, "%s: a history failed\n", seeds)
	}
	return all.add(string(text))
}

func readOutcomes(path string, taken map[invariants.Transition]bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for lines := json.NewDecoder(file); ; {
		var o history.Outcome
		if err := lines.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		for _, t := range o.Transitions {
			taken[t] = true
		}
	}
}

// tellTransitions lists the edges that were not taken, and gives the excuses of those that were.
func tellTransitions(out io.Writer, taken map[invariants.Transition]bool, excuses map[string]string, tellExcused bool) (untrue []string) {
	run, excused := 0, 0
	for _, t := range invariants.Transitions() {
		why, has := excuses[t.String()]
		switch {
		case taken[t] && has:
			run++
			untrue = append(untrue, fmt.Sprintf("%s is taken, and is excused (%s)", t, why))
		case taken[t]:
			run++
		case !has:
			fmt.Fprintln(out, t)
		default:
			excused++
			if tellExcused {
				fmt.Fprintf(out, "%s (%s)\n", t, why)
			}
		}
	}
	all := len(invariants.Transitions())
	fmt.Fprintf(out, "\n%d of %d transitions were taken, %d cannot be, %d are open\n", run, all, excused, all-run-excused)
	return untrue
}

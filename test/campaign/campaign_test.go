package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/test/history"
)

// Seeds that the fake child does not play well.
const (
	fails   = 3
	crashes = 5
	hangs   = 7
	spins   = 9
)

// The tests' own binary is a fake child when its environment says so.
func TestMain(m *testing.M) {
	if os.Getenv("FAKE_CHILD") == "" {
		os.Exit(m.Run())
	}
	os.Exit(fakeChild())
}

// fakeChild answers as a child of test/history does.
func fakeChild() int {
	out, err := os.OpenFile("/dev/fd/3", os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	for plans := json.NewDecoder(os.Stdin); ; {
		var plan history.Plan
		if plans.Decode(&plan) != nil {
			return 0
		}
		o := history.Outcome{Seed: plan.Seed, Revisions: 100, Jobs: 10, Virtual: time.Hour, Clusters: 2}
		switch plan.Seed {
		case fails:
			if o.Broken = slices.ContainsFunc(plan.Steps, func(s history.Step) bool { return s.Fault != nil }); o.Broken {
				_, _ = os.Stdout.WriteString("    judge.go:1: a fault is not survived\n")
			}
		case crashes:
			panic("a bubble is deadlocked")
		case hangs:
			<-time.After(time.Hour)
		case spins:
			for {
				_ = make([]byte, 1<<10)
			}
		}
		if err := json.NewEncoder(out).Encode(o); err != nil {
			panic(err)
		}
	}
}

// newCampaign is one whose children are fake.
func newCampaign(t *testing.T, dir, seeds string, out *strings.Builder) *campaign {
	t.Helper()
	t.Setenv("FAKE_CHILD", "1")
	return &campaign{
		out: out, length: time.Hour, seeds: seeds, jobs: 2, dir: dir, binary: os.Args[0], limit: time.Hour,
		repeats: 2, shrinkTries: 12, shrinkTime: time.Hour, every: time.Hour,
	}
}

// A campaign counts what it plays, keeps and shrinks what fails, and goes on where it ended.
func TestCampaign(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	first := newCampaign(t, dir, "1-4", &out)
	if err := first.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := newCampaign(t, dir, "1-6", &out)
	if err := again.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first.played != 4 || again.played != 2 {
		t.Errorf("%d and %d histories were played, want 4 and 2", first.played, again.played)
	}
	s, err := readState(again.statePath())
	if err != nil {
		t.Fatal(err)
	}
	// The one that crashed has told nothing.
	if s.Histories != 6 || s.Revisions != 500 || s.Jobs != 50 || s.ClusterTime != 10*time.Hour || !slices.Equal(s.Done, spans{{1, 6}}) {
		t.Errorf("the state is %+v", s)
	}
	if len(s.Broken) != 2 || s.Broken[0].Seed != fails || s.Broken[0].Verdict != broken || s.Broken[1].Seed != crashes || s.Broken[1].Verdict != crashed {
		t.Fatalf("broken: %+v", s.Broken)
	}
	if lines := s.Broken[0].Lines; len(lines) != 1 || !strings.Contains(lines[0], "a fault is not survived") {
		t.Errorf("the failure is told as %q", lines)
	}
	if lines := s.Broken[1].Lines; len(lines) == 0 || !strings.Contains(lines[0], "a bubble is deadlocked") {
		t.Errorf("the crash is told as %q", lines)
	}
	drawn, small := readPlan(t, filepath.Join(dir, "found/3/drawn.json")), readPlan(t, filepath.Join(dir, "found/3/plan.json"))
	if len(small.Steps) >= len(drawn.Steps) || !slices.ContainsFunc(small.Steps, func(s history.Step) bool { return s.Fault != nil }) {
		t.Errorf("%d of %d steps are left: %v", len(small.Steps), len(drawn.Steps), small)
	}
	summary, err := os.ReadFile(filepath.Join(dir, "found/3/summary.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "failed 2 of 2 times again"; !strings.Contains(string(summary), want) {
		t.Errorf("%q is not in the summary: %s", want, summary)
	}
	for _, want := range []string{"histories           6 (2 in this run)", "broken              2", "seed 5 crashed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q was not said: %s", want, &out)
		}
	}
}

func readPlan(t *testing.T, path string) (p history.Plan) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// A child that hangs prints its goroutines and is ended, and the next plan has a new one.
func TestWatchdog(t *testing.T) {
	t.Setenv("FAKE_CHILD", "1")
	dir := t.TempDir()
	p, err := newPlayer(os.Args[0], dir, filepath.Join(dir, "output"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for _, plan := range []struct {
		seed  uint64
		limit time.Duration
		want  verdict
	}{{1, time.Hour, passed}, {hangs, 10 * time.Millisecond, hung}, {1, time.Hour, passed}, {spins, time.Second, hung}, {1, time.Hour, passed}} {
		p.limit = plan.limit
		if _, v, err := p.play(t.Context(), history.Plan{Seed: plan.seed}); err != nil || v != plan.want {
			t.Fatalf("seed %d: %s, %v; want %s", plan.seed, v, err, plan.want)
		}
		want := plan.want
		if output, lines, err := p.why(); want == hung && (err != nil || !strings.Contains(string(output), "goroutine ") || len(lines) == 0) {
			t.Errorf("why it hangs: %q, %v; %s", lines, err, output)
		}
	}
}

func TestSeeds(t *testing.T) {
	if all, err := parseSeeds(""); err != nil || all.From != 1 {
		t.Errorf("no seeds are %v, %v", all, err)
	}
	if some, err := parseSeeds("7-9"); err != nil || some != (span{7, 9}) {
		t.Errorf("7-9 is %v, %v", some, err)
	}
	if one, err := parseSeeds("7"); err != nil || one != (span{7, 7}) {
		t.Errorf("7 is %v, %v", one, err)
	}
	for _, wrong := range []string{"0", "9-7", "a", "1-", "-3"} {
		if got, err := parseSeeds(wrong); err == nil {
			t.Errorf("%q is %v", wrong, got)
		}
	}
	var done spans
	for _, seed := range []uint64{4, 1, 3, 2, 7, 7} {
		done = done.with(seed)
	}
	if !slices.Equal(done, spans{{1, 4}, {7, 7}}) || !done.has(3) || done.has(5) {
		t.Errorf("done: %v", done)
	}
}

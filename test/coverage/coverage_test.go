package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/test/history"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// The counts of several profiles are added. Files that decide nothing are left out.
func TestProfilesAreAdded(t *testing.T) {
	const line = "github.com/oscarfed/oscarfed/controlplane/decide/decide.go:10.2,12.3 1 "
	all := blocks{}
	for _, profile := range []string{"mode: count\n" + line + "0\n", "mode: count\n" + line + "3\ngithub.com/oscarfed/oscarfed/store/update.go:1.1,2.2 1 7\n"} {
		if err := all.add(profile); err != nil {
			t.Fatal(err)
		}
	}
	want := block{"controlplane/decide/decide.go", place{10, 2}, place{12, 3}}
	if len(all) != 1 || all[want] != 3 {
		t.Errorf("the counts are %v", all)
	}
	if err := all.add("what is this\n"); err == nil {
		t.Error("a line that is none of a profile was read")
	}
}

// A branch is told by the line of its condition and the first line in it.
func TestABranchHasItsCondition(t *testing.T) {
	lines := []string{"if late {", "\treturn refused", "}"}
	if got := (block{start: place{line: 1}, end: place{line: 3}}).text(lines); got != "if late { return refused" {
		t.Errorf("the branch is %q", got)
	}
}

// Every excuse is for a branch and a transition that there is.
func TestExcusesAreForWhatThereIs(t *testing.T) {
	from := newSources(filepath.Join("..", ".."))
	for _, e := range excusedBlocks() {
		from.find(t, e)
	}
	known := map[string]bool{}
	for _, transition := range invariants.Transitions() {
		known[transition.String()] = true
	}
	for name := range excusedTransitions() {
		if !known[name] {
			t.Errorf("there is no transition %s", name)
		}
	}
}

// find is the first line that an excuse is for.
func (s sources) find(t *testing.T, e excuse) block {
	t.Helper()
	if !decides(e.file) {
		t.Errorf("%s decides nothing", e.file)
	}
	src, err := readSource(filepath.Join(s.root, e.file))
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(src.lines) - 1 {
		b := block{e.file, place{i + 1, 1}, place{i + 2, 1}}
		if at, err := s.branch(b); err == nil && at.function != "" && e.of(at) {
			return b
		}
	}
	t.Fatalf("%s: %s has no %q", e.file, e.function, e.text)
	return block{}
}

// What was taken is not told, nor is what is excused, unless it is asked for. An excuse is untrue when what it
// is for was taken, or is not there.
func TestWhatWasNotTakenIsTold(t *testing.T) {
	from := newSources(filepath.Join("..", ".."))
	open := from.find(t, excuse{"controlplane/decide/decide.go", "Decide", "decideEvacuation", ""})
	excuses := []excuse{{"controlplane/decide/delete.go", "Deletion", "Request = ", "the excuse"}}
	excused := from.find(t, excuses[0])
	for _, taken := range []bool{false, true} {
		all := blocks{open: 0, excused: 0}
		if taken {
			all = blocks{open: 1, excused: 1}
		}
		for _, tells := range []bool{false, true} {
			var out bytes.Buffer
			untrue, err := tellBlocks(&out, all, from, excuses, tells)
			if err != nil || len(untrue) > 0 != taken {
				t.Errorf("taken %v: %v, %v", taken, untrue, err)
			}
			if text := out.String(); strings.Contains(text, "decideEvacuation") == taken || strings.Contains(text, "the excuse") != (tells && !taken) {
				t.Errorf("taken %v, tells %v: %s", taken, tells, text)
			}
		}
	}
	if untrue, err := tellBlocks(io.Discard, blocks{open: 1}, from, excuses, false); err != nil || len(untrue) != 1 {
		t.Errorf("an excuse for no branch: %v, %v", untrue, err)
	}
}

func TestTransitionsThatWereNotTakenAreTold(t *testing.T) {
	open, excused := invariants.Transitions()[0], invariants.Transitions()[1]
	excuses := map[string]string{excused.String(): "the excuse"}
	for _, taken := range []bool{false, true} {
		for _, tells := range []bool{false, true} {
			var out bytes.Buffer
			untrue := tellTransitions(&out, map[invariants.Transition]bool{open: taken, excused: taken}, excuses, tells)
			if len(untrue) > 0 != taken {
				t.Errorf("taken %v: %v", taken, untrue)
			}
			if text := out.String(); strings.Contains(text, open.String()+"\n") == taken || strings.Contains(text, "the excuse") != (tells && !taken) {
				t.Errorf("taken %v, tells %v: %s", taken, tells, text)
			}
		}
	}
}

// The trials are played, too, before the seeds.
func TestTrialsArePlayed(t *testing.T) {
	p, trials := plans(3, 4), len(history.AllTrials())
	if len(p) != trials+2 || len(p[0].Trials) == 0 || p[trials].Seed != 3 || p[trials+1].Seed != 4 {
		t.Errorf("%d plans are played: %v", len(p), p)
	}
}

package main

import (
	"bytes"
	"os"
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
	for _, e := range excusedBlocks() {
		text, err := os.ReadFile(filepath.Join("..", "..", e.file))
		if err != nil || !strings.Contains(string(text), e.text) {
			t.Errorf("%s has no %q: %v", e.file, e.text, err)
		}
		if !decides(e.file) {
			t.Errorf("%s decides nothing", e.file)
		}
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

// What was taken is not told, nor is what is excused, unless it is asked for.
func TestTransitionsThatWereNotTakenAreTold(t *testing.T) {
	transitions := invariants.Transitions()
	taken := map[invariants.Transition]bool{transitions[0]: true}
	for _, all := range []bool{false, true} {
		var out bytes.Buffer
		tellTransitions(&out, taken, all)
		if strings.Contains(out.String(), transitions[0].String()+"\n") {
			t.Errorf("%s is told, and was taken", transitions[0])
		}
		for name, why := range excusedTransitions() {
			if strings.Contains(out.String(), name+because(why)) != all {
				t.Errorf("all is %v, and the excused %s: %s", all, name, out.String())
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

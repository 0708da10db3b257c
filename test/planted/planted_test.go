package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/test/history"
)

// The text of each defect is in its file once, and the file is another one with it.
func TestDefectsCanBePlanted(t *testing.T) {
	names, scenes := map[string]bool{}, map[string]bool{"": true}
	for _, plan := range history.AllTrials() {
		for _, trial := range plan.Trials {
			scenes[trial.What] = true
		}
	}
	for _, d := range defects() {
		if names[d.name] {
			t.Errorf("%s is there twice", d.name)
		}
		names[d.name] = true
		if !scenes[d.scene] {
			t.Errorf("%s shows in %q, which is no trial", d.name, d.scene)
		}
		if _, err := plant(d, filepath.Join("..", "..")); err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
		for _, e := range d.edits {
			if e.old == e.new {
				t.Errorf("%s changes nothing in %s", d.name, e.file)
			}
		}
	}
}

func TestComplaint(t *testing.T) {
	const out = "=== RUN TestHistories\n    history_test.go:27: seed 1, {Clusters:3}\n  1s  client 0: create\n" +
		"    history_test.go:34: promises checked at 3 revisions\n    history_test.go:34: event 1 was started 2 times\n"
	if got := complaint([]byte(out)); got != "event 1 was started 2 times" {
		t.Errorf("the complaint is %q", got)
	}
}

// A result is written beside its defect, and the others stay.
func TestResults(t *testing.T) {
	path, all := filepath.Join(t.TempDir(), "README.md"), defects()
	if err := writeResult(path, all[0].name, catch{by: "7", said: "a rule"}); err != nil {
		t.Fatal(err)
	}
	if err := writeResult(path, all[1].name, catch{histories: 3}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := results(string(text))
	if got[all[0].name] != "by seed 7, 0 s: a rule" || got[all[1].name] != "not in 3 histories, 0 s" || got[all[2].name] != notPlayed {
		t.Errorf("the page has %q, %q and %q", got[all[0].name], got[all[1].name], got[all[2].name])
	}
}

// A file with variants keeps what it does, and has the twin of each changed function.
func TestSwitched(t *testing.T) {
	const original = "package p\n\nimport \"fmt\"\n\ntype T int\n\nfunc (t *T) f(a, b int, c ...string) int { return a }\n\nfunc g() { fmt.Print() }\n"
	got, err := switched("a/p.go", []byte(original), map[int][]byte{
		3: []byte(strings.Replace(original, "return a", "return b", 1)),
		8: []byte(strings.Replace(original, "fmt.Print()", "", 1)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := functions("a/p.go", got); err != nil {
		t.Errorf("%v: %s", err, got)
	}
	for _, want := range []string{
		"if planteda_p_go == \"3\" {\n\t\treturn t.fPlanted3(a, b, c...)\n\t}\n return a }",
		"func (t *T) fPlanted3(a, b int, c ...string) int { return b }",
		"if planteda_p_go == \"8\" {\n\t\tgPlanted8()\n\t\treturn\n\t}\n fmt.Print() }",
		"func gPlanted8() {  }",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	if _, err := switched("a/p.go", []byte(original), map[int][]byte{1: []byte(original)}); err == nil {
		t.Error("a defect that changes no function can be planted")
	}
}

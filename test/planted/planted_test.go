package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The text of each defect is in its file once, and the file is another one with it.
func TestDefectsCanBePlanted(t *testing.T) {
	names := map[string]bool{}
	for _, d := range defects() {
		if names[d.name] {
			t.Errorf("%s is there twice", d.name)
		}
		names[d.name] = true
		text, err := os.ReadFile(filepath.Join("..", "..", d.file))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := plant(d, text); err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
		if d.old == d.new {
			t.Errorf("%s changes nothing", d.name)
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

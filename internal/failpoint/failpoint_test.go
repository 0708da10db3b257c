package failpoint

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		value string
		nth   int64
		wrong string
	}{
		{"a.b", 1, ""},
		{"a.b:3", 3, ""},
		{"a.b:0", 0, "not a count"},
		{"a.b:x", 0, "not a count"},
		{"c", 0, "known: a.b"},
		{"", 0, "unknown"},
	} {
		got, err := Parse(tc.value, "a.b")
		switch {
		case tc.wrong == "" && err != nil:
			t.Errorf("Parse(%q): %v", tc.value, err)
		case tc.wrong == "" && got.nth != tc.nth:
			t.Errorf("Parse(%q) waits for hit %d, want %d", tc.value, got.nth, tc.nth)
		case tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)):
			t.Errorf("Parse(%q): error %v, want one with %q", tc.value, err, tc.wrong)
		}
	}
}

func TestHitDiesOnceAtTheNthHitOfItsName(t *testing.T) {
	died := 0
	trigger := &Trigger{name: "here", nth: 2, die: func() { died++ }}
	for _, name := range []string{"here", "there", "there", "here", "here"} {
		trigger.Hit(name)
	}
	if died != 1 {
		t.Errorf("died %d times, want 1", died)
	}
}

func TestNilIsOff(t *testing.T) {
	var off *Trigger
	off.Hit("anything")
	if got, err := FromEnv("a"); got != nil || err != nil {
		t.Errorf("without %s: %v, %v", EnvVar, got, err)
	}
}

// TestKilled runs itself as a child whose environment names a fail point.
func TestKilled(t *testing.T) {
	if os.Getenv(EnvVar) != "" {
		trigger, err := FromEnv("step.one", "step.two")
		if err != nil {
			t.Fatal(err)
		}
		trigger.Hit("step.one")
		trigger.Hit("step.two")
		t.Fatal("passed the fail point alive")
	}
	child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	child.Env = append(os.Environ(), EnvVar+"=step.two")
	out, err := child.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatalf("the child ended with %v: %s", err, out)
	}
	if status := exit.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("the child ended with %v, want SIGKILL: %s", err, out)
	}
}

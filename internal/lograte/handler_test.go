package lograte_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/internal/lograte"
	"github.com/oscarfed/oscarfed/test/await"
)

// logger writes lines without their time.
func logger(cfg lograte.Config) (*slog.Logger, *await.Output) {
	out := &await.Output{}
	text := slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}})
	return slog.New(lograte.New(text, cfg)), out
}

// TestALoopDoesNotFillTheLog: equal lines are let through a few times, and counted; what
// differs in what it is about is not held back by them.
func TestALoopDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := logger(lograte.Config{Burst: 2, Interval: time.Minute})
		a := log.With("cluster", "a")
		for i := range 1000 {
			a.Warn("Lease is not held", "error", fmt.Errorf("try %d", i))
		}
		a.Warn("Lease is not held", "reason", "another")
		a.Error("Lease is not held")
		log.With("cluster", "b").Warn("Lease is not held")
		want := `level=WARN msg="Lease is not held" cluster=a error="try 0"
level=WARN msg="Lease is not held" cluster=a error="try 1"
level=WARN msg="Lease is not held" cluster=a reason=another
level=ERROR msg="Lease is not held" cluster=a
level=WARN msg="Lease is not held" cluster=b
`
		if out.String() != want {
			t.Errorf("logged\n%s", out)
		}
		out.Reset()
		<-time.After(time.Minute)
		synctest.Wait()
		if want := "level=WARN msg=\"lines like this were left out\" cluster=a line=\"Lease is not held\" count=998 interval=1m0s\n"; out.String() != want {
			t.Errorf("at the end of the interval\n%s", out)
		}
		out.Reset()
		a.Warn("Lease is not held", "error", errors.New("again"))
		if !strings.Contains(out.String(), "again") {
			t.Error("the next interval has no lines of its own")
		}
	})
}

// TestManyKindsOfLinesTakeBoundedMemory: those that are too many count together, and are
// let through far longer.
func TestManyKindsOfLinesTakeBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := logger(lograte.Config{Burst: 1, Interval: time.Minute, Kinds: 10})
		for i := range 100_000 {
			log.Warn("a step was not taken", "federation", i)
		}
		if n := strings.Count(out.String(), "\n"); n != 110 {
			t.Errorf("%d lines, want 10 and the first 100 of all others", n)
		}
		out.Reset()
		<-time.After(time.Minute)
		synctest.Wait()
		if !strings.Contains(out.String(), "count=99890") {
			t.Errorf("left out\n%s", out)
		}
		log.Warn("a step was not taken", "federation", "next")
		if !strings.Contains(out.String(), "federation=next") {
			t.Error("kinds of an interval that is over keep others out")
		}
	})
}

// TestAttributesInsideOfAGroupAreNoIdentity: their names belong to the group.
func TestAttributesInsideOfAGroupAreNoIdentity(t *testing.T) {
	log, out := logger(lograte.Config{Burst: 1})
	for i := range 3 {
		log.WithGroup("etcd").Warn("slow", "cluster", i)
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines:\n%s", n, out)
	}
}

// TestEachRequestHasItsLine: what is logged once for each request is not a repetition.
func TestEachRequestHasItsLine(t *testing.T) {
	log, out := logger(lograte.Config{Burst: 1, Kinds: 1})
	for i := range 500 {
		log.Info("request", "request_id", i)
	}
	if n := strings.Count(out.String(), "\n"); n != 500 {
		t.Errorf("%d lines of 500", n)
	}
}

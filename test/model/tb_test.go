package model_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// life is one run of the machine as a test of its own: package world takes a
// testing.TB and cleans up at that test's end, and there are many runs in one
// test. What fails beside the run's goroutine is kept, and told to rapid by told.
type life struct {
	testing.TB
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// errEnded is what ends a run in the middle: see FailNow.
type errEnded struct{}

func newLife(t testing.TB) *life {
	l := &life{TB: t}
	l.ctx, l.cancel = context.WithCancel(t.Context())
	return l
}

// end stops what the run started, and tells rapid all that went wrong. It must be
// deferred; it passes rapid's own panics on.
func (l *life) end(rt *rapid.T) {
	rt.Helper()
	failed := recover()
	l.cancel()
	for {
		l.mu.Lock()
		n := len(l.cleanups)
		if n == 0 {
			l.mu.Unlock()
			break
		}
		fn := l.cleanups[n-1]
		l.cleanups = l.cleanups[:n-1]
		l.mu.Unlock()
		l.guard(fn)
	}
	if _, ended := failed.(errEnded); failed != nil && !ended {
		if told := l.told(); told != "" {
			rt.Logf("and besides: %s", told)
		}
		panic(failed)
	}
	if told := l.told(); told != "" {
		rt.Fatalf("%s", told)
	}
}

// guard runs a clean-up; one that ends early is no reason to leave out the next.
func (l *life) guard(fn func()) {
	defer func() {
		if r := recover(); r != nil {
			if _, ended := r.(errEnded); !ended {
				l.Errorf("a clean-up panicked: %v", r)
			}
		}
	}()
	fn()
}

func (l *life) told() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.failures, "\n")
}

// Cleanup implements testing.TB.
func (l *life) Cleanup(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleanups = append(l.cleanups, fn)
}

// Context implements testing.TB.
func (l *life) Context() context.Context { return l.ctx }

// Helper implements testing.TB.
func (l *life) Helper() {}

// Errorf implements testing.TB.
func (l *life) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, fmt.Sprintf(format, args...))
}

// Error implements testing.TB.
func (l *life) Error(args ...any) { l.Errorf("%s", fmt.Sprint(args...)) }

// Fatalf implements testing.TB.
func (l *life) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	l.FailNow()
}

// Fatal implements testing.TB.
func (l *life) Fatal(args ...any) {
	l.Error(args...)
	l.FailNow()
}

// Fail implements testing.TB.
func (l *life) Fail() { l.Errorf("failed") }

// FailNow implements testing.TB. It must be called by the run's own goroutine.
func (l *life) FailNow() { panic(errEnded{}) }

// Failed implements testing.TB.
func (l *life) Failed() bool { return l.told() != "" }

// Logf implements testing.TB: what is logged by hundreds of runs is not read.
func (l *life) Logf(string, ...any) {}

// Log implements testing.TB.
func (l *life) Log(...any) {}

// Output implements testing.TB.
func (l *life) Output() io.Writer { return io.Discard }

// TempDir implements testing.TB: the folder goes with the run and not with the test.
func (l *life) TempDir() string {
	dir, err := os.MkdirTemp("", "model")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

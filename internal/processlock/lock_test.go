package processlock_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/oscarfed/oscarfed/internal/processlock"
)

func TestALockHasOneHolderAndItsName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := take(t, path)
	if _, err := processlock.Take(path); !errors.Is(err, processlock.ErrHeld) {
		t.Errorf("error %v; want %v", err, processlock.ErrHeld)
	}
	again := take(t, path, first)
	if again.Name() != first.Name() || first.Name() == "" {
		t.Errorf("the name was %q, and is %q", first.Name(), again.Name())
	}
}

// TestANameIsOfOneMachine: what is not of this run of the kernel gives a new name.
func TestANameIsOfOneMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := take(t, path)
	for what, content := range map[string]string{
		"of another machine": "d0c1b7a0-0000-4000-8000-000000000000 " + first.Name() + "\n", "empty": "", "no name": "word\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		next := take(t, path, first)
		if next.Name() == first.Name() || next.Name() == "" {
			t.Errorf("a file that is %s gives the name %q", what, next.Name())
		}
		first = next
	}
}

// take takes a lock after another one.
func take(t *testing.T, path string, before ...*processlock.Lock) *processlock.Lock {
	t.Helper()
	for _, b := range before {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := processlock.Take(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	return lock
}

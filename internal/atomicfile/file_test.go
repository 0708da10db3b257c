package atomicfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, mode := range []os.FileMode{0o600, 0o644, 0o600} {
		data := mode.String()
		if err := atomicfile.Write(path, []byte(data), mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != mode {
			t.Errorf("mode %v, %v; want %v", info.Mode(), err, mode)
		}
		hold(t, path, data)
	}
	alone(t, path)
}

func TestCreateLeavesWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.Create(path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Create(path, []byte("second"), 0o600); !errors.Is(err, os.ErrExist) {
		t.Errorf("error %v; want %v", err, os.ErrExist)
	}
	hold(t, path, "first")
	alone(t, path)
}

func TestDiscardLeavesTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := atomicfile.New(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("half"); err != nil {
		t.Fatal(err)
	}
	hold(t, path, "old")
	if err := errors.Join(f.Discard(), f.Discard()); err != nil {
		t.Error(err)
	}
	hold(t, path, "old")
	alone(t, path)
}

func TestDiscardAfterCommitDoesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f, err := atomicfile.New(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("new"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Commit(), f.Discard()); err != nil {
		t.Error(err)
	}
	hold(t, path, "new")
	alone(t, path)
}

func TestAFailedWriteLeavesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "directory")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if atomicfile.Write(path, []byte("new"), 0o600) == nil {
		t.Error("a directory was replaced")
	}
	alone(t, path)
	if atomicfile.Write(filepath.Join(path, "absent", "file"), nil, 0o600) == nil {
		t.Error("a file was made in a directory that is not there")
	}
}

func hold(t *testing.T, path, want string) {
	t.Helper()
	if data, err := os.ReadFile(path); err != nil || string(data) != want {
		t.Errorf("%s holds %q, %v; want %q", path, data, err, want)
	}
}

// alone demands that nothing else was left beside a file.
func alone(t *testing.T, path string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	hidden, err2 := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if all := append(found, hidden...); err != nil || err2 != nil || !slices.Equal(all, []string{path}) {
		t.Errorf("%q; want %q alone", all, path)
	}
}

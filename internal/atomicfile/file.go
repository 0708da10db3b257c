package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// File is the successor of a file while it is written. Only its owner can read it, unless Chmod
// says otherwise. It ends with Commit or Discard.
type File struct {
	*os.File
	path string
	done bool
}

// New makes an empty successor of a file, which need not be there.
func New(path string) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), prefix(path)+"*") // mode 0600
	if err != nil {
		return nil, err
	}
	return &File{File: f, path: path}, nil
}

// prefix begins the names of a file's successors. What follows are digits.
func prefix(path string) string { return "." + filepath.Base(path) + "-" }

// Sweep removes successors of a file that nobody has written to since a time: those of processes that were killed.
func Sweep(path string, since time.Time) error {
	there, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	var problems []error
	for _, one := range there {
		number, ok := strings.CutPrefix(one.Name(), prefix(path))
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" || !one.Type().IsRegular() {
			continue
		}
		info, err := one.Info()
		if err == nil && info.ModTime().Before(since) {
			err = os.Remove(filepath.Join(filepath.Dir(path), one.Name()))
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// Commit replaces the file. It returns when that would survive the loss of power. After an error
// the old file is there, or the whole new one.
func (f *File) Commit() error { return f.commit(os.Rename) }

// commit gives the successor its name in one step.
func (f *File) commit(name func(from, to string) error) error {
	err := f.Sync()
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = name(f.Name(), f.path)
	}
	if err = errors.Join(err, f.Discard()); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return SyncDir(filepath.Dir(f.path))
}

// Discard removes the successor; it does nothing after Commit.
func (f *File) Discard() error {
	if f.done {
		return nil
	}
	f.done = true
	if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Remove(f.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Write replaces a file by one with this content. It returns when that would survive the loss of
// power.
func Write(path string, data []byte, mode os.FileMode) error {
	return write(path, data, mode, os.Rename)
}

// Create is Write for a name that is free. The error is os.ErrExist when it is not.
func Create(path string, data []byte, mode os.FileMode) error {
	return write(path, data, mode, os.Link)
}

func write(path string, data []byte, mode os.FileMode, name func(from, to string) error) error {
	f, err := New(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode)); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), f.Discard())
	}
	return f.commit(name)
}

// SyncDir makes the names in a directory survive the loss of power, where its file system can.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // some file systems over a network have nothing to write
	}
	if err := errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("write directory %s: %w", path, err)
	}
	return nil
}

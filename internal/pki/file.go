package pki

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ReplaceFile puts data under a name as a whole or not at all, also when the
// machine loses its power.
func ReplaceFile(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a new name in a directory last.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("write directory %s: %w", path, err)
	}
	return nil
}

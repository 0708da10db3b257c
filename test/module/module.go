// Package module finds the files of the repository that tests need.
package module

import (
	"errors"
	"os"
	"path/filepath"
)

// Root is the folder of go.mod, above the folder of the package under test.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

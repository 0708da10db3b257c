package embedded

import (
	"fmt"
	"os"
	"path/filepath"
)

// maxSocketPath is the most bytes of a socket's path; Linux takes 107, others 103.
const maxSocketPath = 103

// socketFor chooses where a socket lies: in the data directory, which only its
// owner can enter, or, when that path is too long for a socket, in a temporary
// directory that cleanup removes.
func socketFor(dir, name string) (path string, cleanup func(), err error) {
	if path, err = filepath.Abs(filepath.Join(dir, name)); err != nil {
		return "", nil, fmt.Errorf("etcd data directory: %w", err)
	}
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	short, err := os.MkdirTemp("", "oscarfed-") // mode 0700
	if err != nil {
		return "", nil, fmt.Errorf("directory for etcd's socket: %w", err)
	}
	path = filepath.Join(short, name)
	cleanup = func() { _ = os.RemoveAll(short) }
	if len(path) > maxSocketPath {
		cleanup()
		return "", nil, fmt.Errorf("path %s is too long for a socket: at most %d bytes are possible; set TMPDIR to a shorter one", path, maxSocketPath)
	}
	return path, cleanup, nil
}

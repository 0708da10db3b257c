package session

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
)

// Memory keeps the uid of the registration that a syncer is for.
type Memory interface {
	// Load gives what was saved last; empty when nothing was.
	Load() (string, error)
	// Save returns when the uid would survive the death of the process.
	Save(uid string) error
}

// MemoryFile is a Memory in a file of this name: one line.
type MemoryFile string

// maxMemory bounds the file in bytes; a uid has 36.
const maxMemory = 256

// Load implements Memory.
func (f MemoryFile) Load() (string, error) {
	data, err := os.ReadFile(string(f))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	}
	uid := strings.TrimSpace(string(data))
	if len(data) > maxMemory || !keepable(uid) {
		return "", fmt.Errorf("%s does not hold the uid of a cluster; restore it, or remove it to meet the registration anew", f)
	}
	return uid, nil
}

// keepable says whether a uid that is saved can be loaded again.
func keepable(uid string) bool {
	return uid != "" && len(uid) < maxMemory && !strings.ContainsFunc(uid, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Save implements Memory.
func (f MemoryFile) Save(uid string) error {
	return atomicfile.Write(string(f), []byte(uid+"\n"), 0o600)
}

// ProcessMemory is a Memory that lasts as long as the process.
type ProcessMemory struct{ uid string }

// Load implements Memory.
func (m *ProcessMemory) Load() (string, error) { return m.uid, nil }

// Save implements Memory.
func (m *ProcessMemory) Save(uid string) error { m.uid = uid; return nil }

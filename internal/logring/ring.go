// Package logring keeps the last lines of a log in memory, for who asks what happened just now.
package logring

import (
	"bytes"
	"sync"
)

// Ring is a writer that keeps what was written last, a line each time. It may be used from several
// goroutines.
type Ring struct {
	most int

	mu    sync.Mutex
	lines [][]byte
	bytes int
}

// New makes a Ring that keeps so many bytes at most.
func New(most int) *Ring { return &Ring{most: most} }

// Write keeps a line, and forgets the oldest ones for it. It never fails.
func (r *Ring) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, bytes.Clone(line))
	r.bytes += len(line)
	for r.bytes > r.most {
		r.bytes -= len(r.lines[0])
		r.lines[0] = nil
		r.lines = r.lines[1:]
	}
	return len(line), nil
}

// Bytes are the lines that are kept, the oldest first.
func (r *Ring) Bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Join(r.lines, nil)
}

package process

import "sync"

// Log keeps the end of what a program wrote, and what its predecessors wrote to the
// same log.
type Log struct {
	mu  sync.Mutex
	buf []byte
}

// maxLog in bytes is kept, twice as much at times.
const maxLog = 64 << 10

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p...)
	if n := len(l.buf); n > 2*maxLog {
		l.buf = append(l.buf[:0], l.buf[n-maxLog:]...)
	}
	return len(p), nil
}

// String is the end of what was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.buf)
}

// Tail is the last bytes of it, at most n.
func (l *Log) Tail(n int) string {
	text := l.String()
	return text[max(0, len(text)-n):]
}

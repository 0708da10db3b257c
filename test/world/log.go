package world

import (
	"bytes"
	"log/slog"
	"sync"
)

// Log keeps what every part of a world logged.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Logger writes to the log.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String is all that was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

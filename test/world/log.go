package world

import (
	"log/slog"

	"github.com/oscarfed/oscarfed/test/await"
)

// Log keeps what every part of a world logged.
type Log struct{ await.Output }

// Logger writes to the log.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

package world

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/test/await"
)

// Log keeps what every part of a world logged.
type Log struct{ await.Output }

// Logger writes to the log.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// maxTold bounds the lines that are told of a test that failed.
const maxTold = 40

// tell shows the last lines that are more than information.
func (l *Log) tell(t testing.TB) {
	var told []string
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) {
			told = append(told, line)
		}
	}
	t.Logf("the last of %d warnings and errors that were logged:\n%s", len(told), strings.Join(told[max(0, len(told)-maxTold):], ""))
}

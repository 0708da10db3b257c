package boot

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestAFatalErrorIsSaidOnce: a daemon's in its log, a command's in words.
func TestAFatalErrorIsSaidOnce(t *testing.T) {
	run := func(context.Context, *slog.Logger) error { return errors.New("the disk is full") }
	for name, program := range map[string]func(context.Context, string, Log, error, io.Writer, func(context.Context, *slog.Logger) error) int{
		"daemon": daemon, "command": command,
	} {
		var stderr strings.Builder
		status := program(t.Context(), name, Log{Level: "error"}, nil, &stderr, run)
		said := stderr.String()
		if status != exitFailed || strings.Count(said, "the disk is full") != 1 {
			t.Errorf("%s: status %d, said %q", name, status, said)
		}
		if logged := strings.HasPrefix(said, "{"); logged != (name == "daemon") {
			t.Errorf("%s said %q", name, said)
		}
	}
}

// "pause":1417862377 was a second and a half.
func TestDurationsInLogsAreText(t *testing.T) {
	var lines strings.Builder
	newLogger(Log{Level: "info"}, &lines).With("pause", 1500*time.Millisecond).Warn("it is tried again", slog.Group("how", "after", 2*time.Minute))
	if got := lines.String(); !strings.Contains(got, `"pause":"1.5s"`) || !strings.Contains(got, `"after":"2m0s"`) {
		t.Error(got)
	}
}

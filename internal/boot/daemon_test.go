package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
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

// What another machine has written may be quoted in an error: it must fill no disk.
func TestALongTextIsCutInTheLog(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	_, err := time.Parse(time.RFC3339, long)
	var lines strings.Builder
	log := newLogger(Log{Level: "info"}, &lines)
	log.With("key", long).Error("a record cannot be read", "error", fmt.Errorf("record: %w", err), slog.Group("at", "word", long), "names", []string{"a", long},
		"short", "as it is", "none", (*store.CorruptError)(nil))
	if n := lines.Len(); n > 5*maxLogText {
		t.Errorf("a line has %d bytes", n)
	}
	var line struct{ Error, Key, Short string }
	if err := json.Unmarshal([]byte(lines.String()), &line); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(line.Error, "record: parsing time") || !strings.HasPrefix(line.Key, "éé") || line.Short != "as it is" || !strings.HasSuffix(line.Key, "(2097152 bytes)") {
		t.Errorf("it says %.100q, %.100q and %.100q", line.Error, line.Key, line.Short)
	}
}

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

// A backup or a restore that was ended by a signal had status 0: the Job of the chart had succeeded, and what followed
// went on without it.
func TestAnInterruptedCommandHasFailed(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupt(errors.New("terminated signal received"))
	for name, run := range map[string]func(context.Context, *slog.Logger) error{
		"as it says itself": func(ctx context.Context, _ *slog.Logger) error { return fmt.Errorf("etcd: %w", ctx.Err()) },
		"by another error":  func(context.Context, *slog.Logger) error { return errors.New("etcd: nobody answers") },
	} {
		var stderr strings.Builder
		status := command(ctx, "oscarfed backup", Log{Level: "error"}, nil, &stderr, run)
		if said := stderr.String(); status != exitFailed || !strings.HasPrefix(said, "oscarfed backup: interrupted (terminated signal received): etcd: ") {
			t.Errorf("%s: status %d, said %q", name, status, said)
		}
	}
	var stderr strings.Builder
	done := func(context.Context, *slog.Logger) error { return nil }
	stopped := func(ctx context.Context, _ *slog.Logger) error { return ctx.Err() }
	if status := command(ctx, "oscarfed backup", Log{Level: "error"}, nil, &stderr, done); status != exitDone {
		t.Errorf("one that was done before has status %d", status)
	}
	if status := daemon(ctx, "oscar-syncer", Log{Level: "error"}, nil, &stderr, stopped); status != exitDone {
		t.Errorf("a daemon that was stopped has status %d", status)
	}
	if stderr.Len() > 0 {
		t.Errorf("said %q", stderr.String())
	}
}

// A daemon that ended by itself, because something in it was cancelled, ended in silence and with status 0.
func TestADaemonThatNobodyStoppedHasFailed(t *testing.T) {
	var stderr strings.Builder
	status := daemon(t.Context(), "oscar-syncer", Log{Level: "error"}, nil, &stderr, func(context.Context, *slog.Logger) error {
		return fmt.Errorf("watch: %w", context.Canceled)
	})
	if said := stderr.String(); status != exitFailed || !strings.Contains(said, "watch: context canceled") {
		t.Errorf("status %d, said %q", status, said)
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

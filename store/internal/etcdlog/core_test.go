package etcdlog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestNew(t *testing.T) {
	var out bytes.Buffer
	lg := New(slog.New(slog.NewJSONHandler(&out, nil)), zapcore.WarnLevel, func(m string) bool { return m == "boring" })
	lg.Info("too low")
	lg.Warn("boring")
	lg.With(zap.String("member", "m0")).Named("raft").Warn("slow", zap.Int("took", 7), zap.String("request", strings.Repeat("k", 10_000)))
	lg.Error("broken", zap.Error(bytes.ErrTooLarge))
	if err := lg.Sync(); err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("logged: %s", out.String())
	}
	for _, want := range []string{`"level":"WARN"`, `"msg":"slow"`, `"member":"m0"`, `"took":7`, `(10000 bytes)`} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("%s is not in %s", want, lines[0])
		}
	}
	if len(lines[0]) > 2*maxText {
		t.Errorf("a line has %d bytes", len(lines[0]))
	}
	if !strings.Contains(lines[1], `"level":"ERROR"`) || !strings.Contains(lines[1], bytes.ErrTooLarge.Error()) {
		t.Error(lines[1])
	}
}

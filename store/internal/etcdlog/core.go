package etcdlog

import (
	"context"
	"fmt"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New returns a zap logger whose entries of at least level go to to, except
// those that quiet, when it is set, says to be of no interest. An entry that zap
// calls fatal is never left out; it is logged as an error, and then still ends
// the process: etcd uses it where going on would lose data.
func New(to *slog.Logger, level zapcore.Level, quiet func(message string) bool) *zap.Logger {
	if quiet == nil {
		quiet = func(string) bool { return false }
	}
	return zap.New(&core{to: to, level: level, quiet: quiet})
}

// core implements zapcore.Core on a slog logger.
type core struct {
	to    *slog.Logger
	level zapcore.Level
	quiet func(message string) bool
}

func (c *core) Enabled(level zapcore.Level) bool { return level >= c.level }

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{to: slog.New(c.to.Handler().WithAttrs(attrs(fields))), level: c.level, quiet: c.quiet}
}

func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) || e.Level < zapcore.DPanicLevel && c.quiet(e.Message) {
		return ce
	}
	return ce.AddCore(e, c)
}

func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	c.to.LogAttrs(context.Background(), severity(e.Level), e.Message, attrs(fields)...) //nolint:sloglint // the message is etcd's
	return nil
}

func (c *core) Sync() error { return nil }

func severity(level zapcore.Level) slog.Level {
	switch {
	case level <= zapcore.DebugLevel:
		return slog.LevelDebug
	case level == zapcore.InfoLevel:
		return slog.LevelInfo
	case level == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}

func attrs(fields []zapcore.Field) []slog.Attr {
	enc := zapcore.NewMapObjectEncoder()
	out := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		f.AddTo(enc)
		out = append(out, slog.Any(f.Key, short(enc.Fields[f.Key])))
	}
	return out
}

// maxText bounds one attribute, in bytes: of a slow transaction etcd logs every key.
const maxText = 512

func short(v any) any {
	if text, ok := v.(string); ok && len(text) > maxText {
		return fmt.Sprintf("%s... (%d bytes)", text[:maxText], len(text))
	}
	return v
}

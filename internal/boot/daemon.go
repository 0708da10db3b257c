package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/oscarfed/oscarfed/internal/lograte"
)

// Exit statuses of the daemons, the same as the CLI's.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// ControlPlaneMain is oscar-controlplane, and its subcommand etcd-gateway. It answers the
// exit status.
func ControlPlaneMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == gatewayCommand {
		return gatewayMain(ctx, args[1:], stdout, stderr)
	}
	limitHeapGrowth()
	cfg, err := Load[ControlPlane]("oscar-controlplane", "The control plane of an oscarfed federation.", args, stdout)
	return daemon(ctx, "oscar-controlplane", cfg.Log, err, stderr, func(ctx context.Context, log *slog.Logger) error {
		return RunControlPlane(ctx, cfg, log, stdout)
	})
}

// SyncerMain is oscar-syncer. It answers the exit status.
func SyncerMain(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cfg, err := Load[Syncer]("oscar-syncer", "The daemon beside each OSCAR of an oscarfed federation.", args, stdout)
	return daemon(ctx, "oscar-syncer", cfg.Log, err, stderr, func(ctx context.Context, log *slog.Logger) error {
		return RunSyncer(ctx, cfg, stdin, log)
	})
}

// daemon runs a program that writes a log: why it ends is the last line of that. One that was told to end has done its
// work.
func daemon(ctx context.Context, name string, cfg Log, loaded error, stderr io.Writer, run func(context.Context, *slog.Logger) error) int {
	return program(ctx, name, cfg, loaded, stderr, func(ctx context.Context, log *slog.Logger) error {
		err := run(ctx, log)
		if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil
		}
		log.Error("stopped", "error", err)
		return err
	})
}

// command runs a program that a person or a Job waits for: why it fails is said in words. One that was interrupted has
// failed.
func command(ctx context.Context, name string, cfg Log, loaded error, stderr io.Writer, run func(context.Context, *slog.Logger) error) int {
	return program(ctx, name, cfg, loaded, stderr, func(ctx context.Context, log *slog.Logger) error {
		err := run(ctx, log)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("interrupted (%w): %w", context.Cause(ctx), err)
		}
		if err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", name, err)
		}
		return err
	})
}

// program runs with a configuration that was loaded, until a signal ends ctx. run says why it fails.
func program(ctx context.Context, name string, cfg Log, loaded error, stderr io.Writer, run func(context.Context, *slog.Logger) error) int {
	switch {
	case errors.Is(loaded, io.EOF):
		return exitDone
	case loaded != nil:
		fmt.Fprintf(stderr, "%s: %v\n", name, loaded)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := newLogger(cfg, stderr)
	limitMemory(log)
	if run(ctx, log) != nil {
		return exitFailed
	}
	return exitDone
}

// limitMemory makes the garbage collector work harder where the memory of the container or the unit
// is limited, before the kernel ends the process. GOMEMLIMIT says it otherwise.
func limitMemory(log *slog.Logger) {
	if _, err := memlimit.Set(); err != nil {
		log.Warn("the limit of memory is not known", "error", err)
	}
}

// controlPlaneHeapGrowth is by how many percent of what lives the heap of a control plane may grow until the next
// garbage collection. Most of what lives is the read model, which stays: with Go's 100 as much memory again is unused.
const controlPlaneHeapGrowth = 60

// limitHeapGrowth is for control planes. GOGC says it otherwise.
func limitHeapGrowth() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(controlPlaneHeapGrowth)
	}
}

func newLogger(cfg Log, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo
	}
	return slog.New(lograte.New(jsonLog(w, level), lograte.Config{}))
}

// maxLogText bounds each text of a line, in bytes: lograte bounds the lines, and what another machine has written may be
// quoted in one.
const maxLogText = 8 << 10

// jsonLog writes a line of JSON for each record. Durations are text, such as 1.4s, and no count of nanoseconds.
func jsonLog(w io.Writer, level slog.Level) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Value.Kind() {
		case slog.KindDuration:
			a.Value = slog.StringValue(a.Value.Duration().String())
		case slog.KindString:
			a.Value = shortened(a.Value, a.Value.String())
		case slog.KindAny:
			switch v := a.Value.Any().(type) {
			case error, []string:
				a.Value = shortened(a.Value, fmt.Sprint(v))
			}
		default:
		}
		return a
	}})
}

// shortened is a value of a line, or what of its text fits there.
func shortened(v slog.Value, text string) slog.Value {
	if len(text) <= maxLogText {
		return v
	}
	return slog.StringValue(fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(text[:maxLogText], ""), len(text)))
}

package command

import (
	"time"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// TimeOf reads the value of a flag: a time, or how long ago it was; empty is the zero time.
func TimeOf(flag, value string, now time.Time) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(value); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}, exit.Usagef("--%s %q is no time; use for example 2026-01-31T16:00:00Z, or 2h30m for two and a half hours ago", flag, value)
	}
	return at, nil
}

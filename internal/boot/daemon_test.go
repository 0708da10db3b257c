package boot

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// "pause":1417862377 was a second and a half.
func TestDurationsInLogsAreText(t *testing.T) {
	var lines strings.Builder
	newLogger(Log{Level: "info"}, &lines).With("pause", 1500*time.Millisecond).Warn("it is tried again", slog.Group("how", "after", 2*time.Minute))
	if got := lines.String(); !strings.Contains(got, `"pause":"1.5s"`) || !strings.Contains(got, `"after":"2m0s"`) {
		t.Error(got)
	}
}

package clusters

import (
	"testing"
	"time"
)

// A look without news writes nothing: that there was one is known by the syncer's word.
func TestTheAgeOfACapacityIsThatOfTheLastLook(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for want, c := range map[string]struct{ ago, every time.Duration }{
		"20s":  {20 * time.Second, time.Minute},
		"<60s": {time.Hour, time.Minute},
		"60m":  {time.Hour, 0}, // of a syncer that does not say
	} {
		if got := lastLook(now.Add(-c.ago), c.every, now); got != want {
			t.Errorf("changed %s ago, looked at every %s: %q, want %q", c.ago, c.every, got, want)
		}
	}
}

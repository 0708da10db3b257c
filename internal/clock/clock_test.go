package clock

import (
	"testing"
	"time"
)

func TestTheEnvironmentMovesTheClock(t *testing.T) {
	for value, ahead := range map[string]time.Duration{"": 0, "25h": 25 * time.Hour, "-90m": -90 * time.Minute} {
		t.Setenv(EnvVar, value)
		now, err := FromEnv()
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		at := now().Add(-ahead)
		if at.Before(before) || at.After(time.Now()) {
			t.Errorf("with %q it is %s, and %s without", value, at, before)
		}
	}
}

func TestAnOffsetThatIsNoDurationIsAnError(t *testing.T) {
	t.Setenv(EnvVar, "tomorrow")
	if _, err := FromEnv(); err == nil {
		t.Error("it was taken")
	}
}

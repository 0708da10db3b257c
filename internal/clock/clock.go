package clock

import (
	"fmt"
	"os"
	"time"
)

// EnvVar is how far the clock of a process is ahead, as 25h or -90m.
const EnvVar = "OSCARFED_CLOCK_OFFSET"

// FromEnv gives the clock of this process. Without EnvVar it is time.Now.
func FromEnv() (func() time.Time, error) {
	value := os.Getenv(EnvVar)
	if value == "" {
		return time.Now, nil
	}
	ahead, err := time.ParseDuration(value)
	if err != nil {
		return nil, fmt.Errorf("%s is %q: %w", EnvVar, value, err)
	}
	return Ahead(ahead), nil
}

// Ahead is a clock that is ahead of the machine's by d, or behind it.
func Ahead(d time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(d) }
}

package history

import (
	"os"
	"time"

	"github.com/oscarfed/oscarfed/test/invariants"
)

// Outcome is what the history of a seed came to, as one line of JSON.
type Outcome struct {
	Seed   uint64 `json:"seed"`
	Broken bool   `json:"broken,omitempty"`
	// Revisions of the store that were checked, jobs that were accepted, and the time on the
	// history's clocks. They are zero when a history ends early.
	Revisions int64         `json:"revisions"`
	Jobs      int           `json:"jobs"`
	Virtual   time.Duration `json:"virtual"`
	Clusters  int           `json:"clusters"`
	// Transitions are the edges of the state machines that were taken.
	Transitions []invariants.Transition `json:"transitions,omitempty"`
	// Real is the time that it took.
	Real time.Duration `json:"real"`
}

// Environ is the environment of a process that plays histories: this process's, the variables given,
// and a rarer garbage collection. A history keeps little of what it allocates: the default setting
// costs about a quarter of its CPU time.
func Environ(variables ...string) []string {
	return append(append(os.Environ(), "GOGC=400"), variables...)
}

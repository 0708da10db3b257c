package output

import (
	"strings"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Style is how tables are written: for a terminal, or for a program.
type Style struct {
	// Width is the most characters of a line; 0 is as many as it has.
	Width int
	// Colour marks states.
	Colour bool
}

// The colours are those of the terminal's own palette, which its user has chosen.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	cyan   = "\x1b[36m"
	plain  = "\x1b[0m"
)

// colourOf is that of a state of a federation, replica, cluster or job: red, yellow and green for what is
// in trouble, may need a look, and is well, and cyan for what is under way. The web page has the same
// four. Anything else has none.
func colourOf(state string) string {
	switch strings.TrimSuffix(state, ", paused") {
	case v1.PhaseReady, v1.ClusterActive, v1.JobSucceeded:
		return green
	case v1.PhaseDegraded, v1.PhaseDrifted, v1.PhaseHeld, v1.PhaseRollingBack, v1.JobUncertain, v1.JobParked:
		return yellow
	case v1.PhaseAborted, v1.PhaseRolledBack, v1.PhaseRefused, v1.PhaseFailed, v1.PhaseWedged, v1.PhaseUnreachable,
		v1.ClusterRevoked, v1.JobVanished:
		return red
	case v1.PhasePreparing, v1.PhaseApplying, v1.PhaseChanging, v1.PhaseDeleting, v1.PhasePrepared, v1.PhasePending,
		v1.ClusterRemoving, v1.JobAssigned, v1.JobClaimed, v1.JobSubmitting, v1.JobSubmitted, v1.JobRunning:
		return cyan
	}
	return ""
}

// State colours a text that is a state.
func (s Style) State(text string) string {
	colour := colourOf(text)
	if !s.Colour || colour == "" {
		return text
	}
	return colour + text + plain
}

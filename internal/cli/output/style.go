package output

import v1 "github.com/oscarfed/oscarfed/api/v1"

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
	plain  = "\x1b[0m"
)

// colourOf is that of a state of a federation, replica, cluster or job; empty for anything else.
func colourOf(state string) string {
	switch state {
	case v1.PhaseReady, v1.JobSucceeded, v1.JobRunning, "active":
		return green
	case v1.PhasePreparing, v1.PhaseApplying, v1.PhaseRollingBack, v1.PhaseDeleting, "changing", "degraded", "drifted",
		"held", "pending", "stopped", "cordoned", "paused", "removing", v1.JobUncertain, v1.JobParked:
		return yellow
	case v1.PhaseAborted, v1.PhaseRolledBack, "refused", v1.JobFailed, "wedged", "unreachable", "unavailable", v1.JobVanished, "revoked":
		return red
	}
	return ""
}

// Unbounded is the style for lines of any length.
func (s Style) Unbounded() Style { return Style{Colour: s.Colour} }

// State colours a text that is a state.
func (s Style) State(text string) string {
	colour := colourOf(text)
	if !s.Colour || colour == "" {
		return text
	}
	return colour + text + plain
}

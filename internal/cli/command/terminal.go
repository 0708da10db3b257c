package command

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// The words of --color.
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// CheckColor refuses another word.
func (a *App) CheckColor() error {
	switch a.Color {
	case ColorAuto, ColorAlways, ColorNever:
		return nil
	}
	return exit.Usagef("--color %q is unknown; use auto, always or never", a.Color)
}

// Style is how results are written. On a terminal lines are cut to its width and states have colours,
// unless NO_COLOR is set, see https://no-color.org.
func (a *App) Style() output.Style {
	s := output.Style{Colour: a.colour(a.Stdout)}
	if IsTerminal(a.Stdout) && !a.Wide {
		s.Width = terminalWidth(a.Stdout)
	}
	return s
}

// Unbounded is the command with tables of lines of any length: nothing of a message is cut.
func (a *App) Unbounded() *App {
	unbounded := *a
	unbounded.Wide = true
	return &unbounded
}

// ProgressStyle is how progress is written.
func (a *App) ProgressStyle() output.Style {
	return output.Style{Width: terminalWidth(a.Stderr), Colour: a.colour(a.Stderr)}
}

func (a *App) colour(w io.Writer) bool {
	if a.Color == ColorAuto {
		return IsTerminal(w) && os.Getenv("NO_COLOR") == ""
	}
	return a.Color == ColorAlways
}

// IsTerminalInput says whether a person types what r reads.
func IsTerminalInput(r io.Reader) bool {
	f, ok := RawInput(r).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// IsTerminalOutput says whether a person reads what w is given.
func IsTerminalOutput(w io.Writer) bool {
	f, ok := Raw(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// IsTerminal says whether w is a terminal on which lines can be drawn over.
func IsTerminal(w io.Writer) bool { return os.Getenv("TERM") != "dumb" && IsTerminalOutput(w) }

// terminalWidth is what COLUMNS says, else what the terminal says, else 80.
func terminalWidth(w io.Writer) int {
	const least, usual = 20, 80
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width >= least {
		return width
	}
	if f, ok := Raw(w).(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width >= least {
			return width
		}
	}
	return usual
}

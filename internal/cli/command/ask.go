package command

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// Asking is the flag of the commands that take something away: on a terminal they ask before.
type Asking struct{ Yes bool }

// Flags adds it.
func (q *Asking) Flags(f Flags) {
	f.BoolVarP(&q.Yes, "yes", "y", false, "Do not ask. On a terminal it is asked for.")
}

// Ask asks a person whether to do something; a script is not asked.
func (q Asking) Ask(a *App, question string) error {
	if q.Yes || !IsTerminal(a.Stderr) || !IsTerminalInput(a.Stdin) {
		return nil
	}
	fmt.Fprintf(a.Stderr, "%s? [y/N] ", output.Printable(question))
	answer, err := bufio.NewReader(a.Stdin).ReadString('\n')
	if err != nil { // there is no line: the person interrupts the command, or ends the input
		fmt.Fprintln(a.Stderr)
	}
	if word := strings.ToLower(strings.TrimSpace(answer)); err != nil || word != "y" && word != "yes" {
		return exit.Usagef("nothing is changed")
	}
	return nil
}

package cli

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// asking is the flag of the commands that take something away: on a terminal they ask before.
type asking struct{ Yes bool }

func (q *asking) flags(f command.Flags) {
	f.BoolVarP(&q.Yes, "yes", "y", false, "Do not ask. On a terminal it is asked for.")
}

// ask asks a person whether to do something; a script is not asked.
func (q asking) ask(a *app, question string) error {
	if q.Yes || !isTerminal(a.stderr) || !isTerminalInput(a.stdin) {
		return nil
	}
	fmt.Fprintf(a.stderr, "%s? [y/N] ", output.Printable(question))
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if word := strings.ToLower(strings.TrimSpace(answer)); err != nil || word != "y" && word != "yes" {
		return exit.Usagef("nothing is changed")
	}
	return nil
}

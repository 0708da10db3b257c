package jobs

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type explainJobCmd struct {
	ID      string
	Attempt int
}

// Explain is `oscarfed explain job`.
func Explain(a *command.App) *cobra.Command {
	var c explainJobCmd
	cmd := &cobra.Command{
		Use:     "job JOB",
		Short:   "Why a job went where it went",
		Long:    "Why a job went where it went: what was thought of each member of its federation.",
		Example: "  oscarfed explain job 01a1fda3-fc9e-70a6-b6c0-0c2c788607cf",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ID = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.Number(&c.Attempt, "attempt", 0, "Which attempt; the last one when it is not given.")
	return cmd
}

func (c *explainJobCmd) Run(ctx context.Context, a *command.App) error {
	if c.Attempt < 0 {
		return exit.Usagef("--attempt is a number from 1")
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	e, err := api.ExplainJob(ctx, c.ID)
	if err != nil {
		return err
	}
	if a.Form != output.FormTable {
		return output.Encode(a.Stdout, a.Form, e)
	}
	i := slices.IndexFunc(e.Decisions, func(d v1.JobDecision) bool { return c.Attempt == 0 || d.Attempt == c.Attempt })
	if i < 0 {
		if c.Attempt > 0 {
			return exit.Errorf(exit.NotFound, "nothing is known of how attempt %d of job %s was decided", c.Attempt, c.ID)
		}
		a.Sayf("%s; nothing has been decided of it", State(&e.Job))
		return nil
	}
	sayDecision(a, e, i)
	return a.PrintTable(decisionTable(&e.Decisions[i]))
}

// sayDecision says which decision is shown, and of what others it is known.
func sayDecision(a *command.App, e *v1.JobExplanation, shown int) {
	d := &e.Decisions[shown]
	what := "attempt " + strconv.Itoa(d.Attempt)
	if d.Now {
		what = "it is queued; at this moment"
	}
	a.Sayf("%s, by %s at %s: %s", what, d.Policy, d.At.UTC().Format(time.RFC3339), cmp.Or(d.Chosen, "nobody"))
	var others []string
	for i, o := range e.Decisions {
		if i != shown && !o.Now {
			others = append(others, strconv.Itoa(o.Attempt))
		}
	}
	if len(others) > 0 {
		a.Sayf("others: --attempt %s", strings.Join(others, ", "))
	}
}

// decisionTable has a line for each member: whether it was taken, and why or why not.
func decisionTable(d *v1.JobDecision) *output.Table {
	t := output.NewTable("MEMBER", "TAKEN", "WHY", "SCORE", "MESSAGE")
	for _, m := range d.Members {
		score := ""
		if m.Score != nil {
			score = strconv.FormatFloat(*m.Score, 'g', 4, 64)
		}
		t.Row(m.Place, output.YesNo(d.Chosen != "" && m.Place == d.Chosen), m.Why, score, m.Message)
	}
	return t
}

package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// Follow shows the states of a job until done says so.
func Follow(ctx context.Context, a *command.App, api *client.Client, id string, done func(*v1.Job) bool) (last *v1.Job, err error) {
	shown := ""
	err = api.WatchJob(ctx, id, client.JobWatchOptions{
		Broken: func(err error) { a.Sayf("the connection is lost, trying again: %v", err) },
	}, func(j *v1.Job, _ int64) error {
		last = j
		if line := State(j); line != shown {
			a.Sayf("%s", line)
			shown = line
		}
		if done(j) {
			return ErrSeen
		}
		return nil
	})
	if errors.Is(err, ErrSeen) {
		err = nil
	}
	return last, err
}

// ErrSeen ends a watch: what was waited for is there.
var ErrSeen = errors.New("seen")

// State says in one line where a job stands.
func State(j *v1.Job) string {
	line := j.State
	if p := j.Place; p != nil && j.State != v1.JobQueued && j.State != v1.JobParked {
		line += " on " + jobPlace(p)
	}
	if j.Attempt > 1 {
		line += ", attempt " + strconv.Itoa(j.Attempt)
	}
	switch {
	case j.Held:
		line += ", held until every member has said whether it has it"
	case j.Cancelled && !v1.JobEnded(j.State):
		line += ", is being cancelled"
	}
	if j.Reason != "" {
		line += ": " + j.Reason
	}
	if j.Message != "" {
		line += ": " + j.Message
	}
	return line
}

func jobPlace(p *v1.JobPlace) string {
	switch {
	case p == nil:
		return ""
	case p.URL != "":
		return p.URL
	}
	return p.ClusterID + "/" + p.ServiceName
}

type jobGetCmd struct {
	ID    string
	Watch bool
}

// Get is `oscarfed job get`.
func Get(a *command.App) *cobra.Command {
	var c jobGetCmd
	cmd := &cobra.Command{
		Use:     "get JOB",
		Short:   "Show a job and every attempt",
		Long:    "Show a job: where it is, and every attempt.",
		Example: "  oscarfed job get 01a1fda3-fc9e-70a6-b6c0-0c2c788607cf -w",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ID = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.BoolVarP(&c.Watch, "watch", "w", false, "Go on and show each change, until the job has ended.")
	return cmd
}

func (c *jobGetCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	if c.Watch {
		last, err := Follow(ctx, a, api, c.ID, func(j *v1.Job) bool { return v1.JobEnded(j.State) })
		if err != nil {
			return err
		}
		return showJob(a, last)
	}
	job, err := api.Job(ctx, c.ID)
	if err != nil {
		return err
	}
	return showJob(a, job)
}

// showJob prints all that is known of a job.
func showJob(a *command.App, j *v1.Job) error {
	if a.Form == output.FormName {
		_, err := fmt.Fprintln(a.Stdout, output.Printable(j.ID))
		return err
	}
	if a.Form != output.FormTable {
		return output.Encode(a.Stdout, a.Form, j)
	}
	if err := jobFacts(j, a.Now()).Write(a.Stdout, a.Unbounded().Style()); err != nil {
		return err
	}
	if len(j.Attempts) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(a.Stdout, "\nEarlier attempts"); err != nil {
		return err
	}
	return earlierAttempts(j).Write(a.Stdout, a.Style())
}

func jobFacts(j *v1.Job, now time.Time) *output.Table {
	facts := &output.Table{}
	facts.Row("Job", j.ID)
	facts.Row("State", j.State)
	if j.Reason != "" || j.Message != "" {
		facts.Row("Why", strings.TrimPrefix(j.Reason+": "+j.Message, ": "))
	}
	if p := j.Pod; p != nil {
		facts.Row("Pod", p.Reason)
		if p.ExitCode != 0 {
			facts.Row("Exit code", strconv.Itoa(int(p.ExitCode)))
		}
	}
	facts.Row("Came in at", j.ClusterID+"/"+j.ServiceName)
	if j.Offered {
		facts.Row("", "it was a Job of that cluster, and waited there")
	}
	facts.Row("Group", j.GroupID)
	if j.By != "" {
		facts.Row("Sent by", j.By)
	}
	if j.Place != nil {
		facts.Row("Place", jobPlace(j.Place))
		if j.Place.JobName != "" {
			facts.Row("Job at OSCAR", j.Place.JobName)
		}
	}
	facts.Row("Attempt", strconv.Itoa(j.Attempt))
	if j.Cancelled {
		facts.Row("Cancelled", cmp.Or(j.CancelledBy, "yes"))
	}
	if j.Unreachable {
		facts.Row("", "its cluster is away: the state is the last that was heard")
	}
	if j.Held {
		facts.Row("", "it waits, since the store was restored, until every member has said whether it has it")
	}
	facts.Row("Event", output.Count(j.Size, "byte"))
	jobTimes(facts, j, now)
	return facts
}

func jobTimes(facts *output.Table, j *v1.Job, now time.Time) {
	moment := func(name string, t *v1.Time) {
		if t != nil {
			facts.Row(name, output.When(t.Time, now))
		}
	}
	moment("Accepted", &j.AcceptedAt)
	moment("Changed", &j.ChangedAt)
	moment("Submitted", j.SubmittedAt)
	moment("Started", j.StartedAt)
	moment("Ended", j.EndedAt)
	if j.NotBefore != nil {
		facts.Row("Not before", j.NotBefore.UTC().Format(time.RFC3339))
	}
}

func earlierAttempts(j *v1.Job) *output.Table {
	t := output.NewTable("ATTEMPT", "PLACE", "STATE", "REASON", "ANSWER", "ENDED", "MESSAGE")
	for _, p := range j.Attempts {
		answer := ""
		if p.Status != 0 {
			answer = strconv.Itoa(p.Status)
		}
		t.Row(strconv.Itoa(p.Attempt), p.Place, p.State, p.Reason, answer, p.EndedAt.UTC().Format(time.RFC3339), p.Message)
	}
	return t
}

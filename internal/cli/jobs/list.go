package jobs

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type jobListCmd struct {
	Service string
	Cluster string
	Group   string
	State   []string
	Since   string
	Until   string
	Limit   int
	Watch   bool
}

// List is `oscarfed job list`.
func List(a *command.App) *cobra.Command {
	var c jobListCmd
	cmd := &cobra.Command{
		Use:   "list [SERVICE]",
		Short: "List the jobs that you may see",
		Long:  "List the jobs that you may see, the newest first. With SERVICE, those that came in there.",
		Example: "  oscarfed job list\n" +
			"  oscarfed job list grayify --state queued,parked\n" +
			"  oscarfed job list --since 2h --state failed\n" +
			"  oscarfed job list -w",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = command.Argument(args, 0)
			return c.Run(cmd.Context(), a)
		},
	}
	c.flags(command.FlagsOf(cmd))
	return cmd
}

// GetJobs is `oscarfed get jobs`.
func GetJobs(a *command.App) *cobra.Command {
	var c jobListCmd
	cmd := &cobra.Command{
		Use:   "jobs [JOB...]",
		Short: "The jobs that you may see",
		Long:  "List jobs: those that are named, or all that you may see, the newest first.",
		Example: "  oscarfed get jobs\n" +
			"  oscarfed get jobs --service grayify --state queued,parked\n" +
			"  oscarfed get jobs -w",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := onlyForAll(cmd); err != nil {
					return err
				}
				return named(cmd.Context(), a, args)
			}
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.Text(&c.Service, "service", "", "", "NAME", "Only those that came in there.")
	c.flags(f)
	return cmd
}

// onlyForAll refuses the flags that choose among all jobs, and have nothing to choose among jobs that are named.
func onlyForAll(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		switch {
		case flag.Name == "watch":
			err = exit.Usagef("-w is for the list of all jobs: oscarfed job get JOB -w shows each change of one")
		case err == nil && cmd.InheritedFlags().Lookup(flag.Name) == nil:
			err = exit.Usagef("--%s is for the list of all jobs: leave JOB out", flag.Name)
		}
	})
	return err
}

// named prints the jobs of these ids.
func named(ctx context.Context, a *command.App, ids []string) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	list := make([]v1.Job, 0, len(ids))
	for _, id := range ids {
		j, err := api.Job(ctx, id)
		if err != nil {
			return err
		}
		list = append(list, *j)
	}
	return printJobs(a, list)
}

func (c *jobListCmd) flags(f command.Flags) {
	f.Text(&c.Cluster, "cluster", "", "", "ID", "Only those that came in at, are or were on this cluster.")
	f.Text(&c.Group, "group", "", "", "ID", "Only those of this group, or of the federation with this uid.")
	f.List(&c.State, "state", "STATE", "Only those in one of these states.")
	f.Text(&c.Since, "since", "", "", "TIME", "Only those accepted then or later: RFC 3339, or how long ago, such as 2h30m.")
	f.Text(&c.Until, "until", "", "", "TIME", "Only those accepted before.")
	f.Limit(&c.Limit, "How many at most.")
	f.BoolVarP(&c.Watch, "watch", "w", false, "Show those that have not ended, then each one that comes or changes, until interrupted.")
}

func (c *jobListCmd) Run(ctx context.Context, a *command.App) error {
	q := client.JobQuery{Service: c.Service, ClusterID: c.Cluster, GroupID: c.Group, States: c.State}
	var err error
	if q.Since, err = command.TimeOf("since", c.Since, a.Now()); err != nil {
		return err
	}
	if q.Until, err = command.TimeOf("until", c.Until, a.Now()); err != nil {
		return err
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	if c.Watch {
		return watchJobs(ctx, a, api, q)
	}
	list := []v1.Job{}
	for len(list) < c.Limit {
		q.Limit = min(c.Limit-len(list), v1.MaxPage)
		page, err := api.Jobs(ctx, q)
		if err != nil {
			return err
		}
		list = append(list, page.Jobs...)
		if q.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	if err := printJobs(a, list); err != nil || q.Cursor == "" {
		return err
	}
	a.SayLimited(len(list), c.Limit)
	return nil
}

func printJobs(a *command.App, list []v1.Job) error {
	return a.Print(list, func() *output.Table {
		t := output.NewTable(jobColumns()...)
		for i := range list {
			t.Row(jobRow(&list[i], a.Now())...)
		}
		return t
	})
}

// ageColumn is the one that changes by itself.
const ageColumn = 5

func jobColumns() []string {
	return []string{"JOB", "SERVICE", "STATE", "PLACE", "ATTEMPT", "AGE", "REASON"}
}

func jobRow(j *v1.Job, now time.Time) []string {
	return []string{
		j.ID, j.ClusterID + "/" + j.ServiceName, j.State, jobPlace(j.Place), strconv.Itoa(j.Attempt), output.Age(j.AcceptedAt.Time, now), reasonOf(j),
	}
}

// reasonOf is why a job is as it is: while its end is ordered, that.
func reasonOf(j *v1.Job) string {
	if j.Reason == "" && j.Cancelled && !v1.JobEnded(j.State) {
		return "being cancelled"
	}
	return j.Reason
}

// watchJobs prints a row, or a document, for each change of a job.
func watchJobs(ctx context.Context, a *command.App, api *client.Client, q client.JobQuery) error {
	rows := output.NewRowLog(a.Stdout, a.Style())
	begun := false
	shown := map[string]string{} // of each job, all but its age
	err := api.WatchJobs(ctx, q, client.JobWatchOptions{
		Broken: func(err error) { a.Sayf("the connection is lost, trying again: %v", err) },
	}, func(j *v1.Job, _ int64) error {
		if a.Form != output.FormTable {
			return output.EncodeNext(a.Stdout, a.Form, j)
		}
		row := jobRow(j, a.Now())
		if !begun {
			begun = true
			rows.Fit(jobColumns(), row, []string{"", "", "submitting"}) // the longest state
			if !a.NoHeaders {
				if err := rows.Write(jobColumns()); err != nil {
					return err
				}
			}
		}
		for i := range row {
			row[i] = output.Printable(row[i])
		}
		state := strings.Join(append(slices.Clone(row[:ageColumn]), row[ageColumn+1:]...), "\t")
		if shown[j.ID] == state {
			return nil
		}
		shown[j.ID] = state
		return rows.Write(row)
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // that is how a watch ends
	}
	return err
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// maxEvent is what OSCAR can hand to a container, in bytes.
const maxEvent = 96 << 10

type jobSubmitCmd struct {
	Service string
	File    string
	Cluster string
	Key     string
	Wait    bool
	Timeout time.Duration
}

func newJobSubmitCmd(a *app) *cobra.Command {
	var c jobSubmitCmd
	cmd := &cobra.Command{
		Use:   "submit SERVICE",
		Short: "Hand an event over to a service",
		Long:  "Hand an event over to a service: a job, on the cluster that the federation's policy picks.",
		Example: "  oscarfed job submit grayify -f event.json\n" +
			"  echo '{\"photo\":\"1.jpg\"}' | oscarfed job submit grayify -f - --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := flagsOf(cmd)
	f.text(&c.File, "file", "f", "", "FILE", "File with the event; - for standard input. Without it the event is empty.")
	f.text(&c.Cluster, "cluster", "", "", "ID", "Cluster of the service, when several have one of that name.")
	f.text(&c.Key, "idempotency-key", "", "", "KEY", "Sent again with the same key it is the same job, for 24 hours.")
	f.BoolVarP(&c.Wait, "wait", "", false, "Wait until the job has ended. Ends with 0 when it succeeded, 1 when it ended otherwise.")
	f.timeout(&c.Timeout, 0, "With --wait: how long; 0 is as long as it takes. The job goes on afterwards.")
	return cmd
}

func (c *jobSubmitCmd) Run(ctx context.Context, a *app) error {
	if c.Timeout < 0 || c.Timeout > 0 && !c.Wait {
		return exit.Usagef("--timeout goes with --wait, and is more than 0")
	}
	event, err := a.readEvent(c.File)
	if err != nil {
		return err
	}
	api, err := a.dial()
	if err != nil {
		return err
	}
	job, err := api.SubmitJob(ctx, c.Service, event, client.JobOptions{ClusterID: c.Cluster, IdempotencyKey: cmp.Or(c.Key, uuid.NewString())})
	if err != nil {
		return err
	}
	if c.Wait {
		a.sayf("job %s is accepted", job.ID)
		return c.await(ctx, a, api, job.ID)
	}
	if a.form == output.FormTable {
		_, err := fmt.Fprintln(a.stdout, output.Printable(job.ID))
		return err
	}
	return output.Encode(a.stdout, a.form, submitted{ID: job.ID, Location: job.Location})
}

// submitted is what submit prints for programs.
type submitted struct {
	ID       string `json:"id"`
	Location string `json:"location"`
}

// readEvent reads an event from a file, or from standard input.
func (a *app) readEvent(path string) ([]byte, error) {
	in := a.stdin
	switch path {
	case "":
		return nil, nil
	case "-":
	default:
		f, err := os.Open(path)
		if err != nil {
			return nil, exit.Errorf(exit.Invalid, "%w", err)
		}
		defer f.Close() //nolint:errcheck // it was read
		in = f
	}
	event, err := io.ReadAll(io.LimitReader(in, maxEvent+1))
	if err != nil {
		return nil, fmt.Errorf("read the event: %w", err)
	}
	if len(event) > maxEvent {
		return nil, exit.Errorf(exit.Invalid, "%s is larger than %d bytes: put the data into a bucket, and into the event where it is", path, maxEvent)
	}
	return event, nil
}

// await follows a job to its end, shows each state, and prints it as it ended.
func (c *jobSubmitCmd) await(ctx context.Context, a *app, api *client.Client, id string) error {
	waiting := ctx
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	last, err := a.followJob(waiting, api, id, func(j *v1.Job) bool { return v1.JobEnded(j.State) })
	switch {
	case ctx.Err() == nil && waiting.Err() != nil:
		state := "not known"
		if last != nil {
			state = last.State
		}
		return exit.Errorf(exit.InProgress, "job %s has not ended within %s, its state is %s; it goes on", id, c.Timeout, state)
	case err != nil:
		return err
	}
	if err := a.showJob(last); err != nil {
		return err
	}
	if last.State != v1.JobSucceeded {
		return exit.Errorf(exit.Failed, "job %s: %s", id, jobState(last))
	}
	return nil
}

// followJob shows the states of a job until done says so.
func (a *app) followJob(ctx context.Context, api *client.Client, id string, done func(*v1.Job) bool) (last *v1.Job, err error) {
	shown := ""
	err = api.WatchJob(ctx, id, client.JobWatchOptions{
		Broken: func(err error) { a.sayf("the connection is lost, trying again: %v", err) },
	}, func(j *v1.Job, _ int64) error {
		last = j
		if line := jobState(j); line != shown {
			a.sayf("%s", line)
			shown = line
		}
		if done(j) {
			return errSeen
		}
		return nil
	})
	if errors.Is(err, errSeen) {
		err = nil
	}
	return last, err
}

// errSeen ends a watch: what was waited for is there.
var errSeen = errors.New("seen")

// jobState says in one line where a job stands.
func jobState(j *v1.Job) string {
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

type jobListCmd struct {
	Service string
	Cluster string
	Group   string
	State   []string
	Limit   int
	Watch   bool
}

func newJobListCmd(a *app) *cobra.Command {
	var c jobListCmd
	cmd := &cobra.Command{
		Use:   "list [SERVICE]",
		Short: "List the jobs that you may see",
		Long:  "List the jobs that you may see, the newest first. With SERVICE, those that came in there or run there.",
		Example: "  oscarfed job list\n" +
			"  oscarfed job list grayify --state queued,parked\n" +
			"  oscarfed job list -w",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = argument(args, 0)
			return c.Run(cmd.Context(), a)
		},
	}
	f := flagsOf(cmd)
	f.text(&c.Cluster, "cluster", "", "", "ID", "Only those that came in or run on this cluster.")
	f.text(&c.Group, "group", "", "", "ID", "Only those of this group, or of the federation with this uid.")
	f.list(&c.State, "state", "STATE", "Only those in one of these states.")
	f.number(&c.Limit, "limit", 100, "How many at most.")
	f.BoolVarP(&c.Watch, "watch", "w", false, "Show those that have not ended, then each one that comes or changes, until interrupted.")
	return cmd
}

// maxJobPage is how many jobs one request may ask for.
const maxJobPage = 1000

func (c *jobListCmd) Run(ctx context.Context, a *app) error {
	if c.Limit < 1 {
		return exit.Usagef("--limit must be more than 0")
	}
	api, err := a.dial()
	if err != nil {
		return err
	}
	q := client.JobQuery{Service: c.Service, ClusterID: c.Cluster, GroupID: c.Group, States: c.State}
	if c.Watch {
		return watchJobs(ctx, a, api, q)
	}
	list := []v1.Job{}
	for len(list) < c.Limit {
		q.Limit = min(c.Limit-len(list), maxJobPage)
		page, err := api.Jobs(ctx, q)
		if err != nil {
			return err
		}
		list = append(list, page.Jobs...)
		if q.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	return a.print(list, func() *output.Table {
		t := output.NewTable(jobColumns()...)
		for i := range list {
			t.Row(jobRow(&list[i], a.now())...)
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
		j.ID, j.ClusterID + "/" + j.ServiceName, j.State, jobPlace(j.Place), strconv.Itoa(j.Attempt), output.Age(j.AcceptedAt.Time, now), j.Reason,
	}
}

// watchJobs prints a row, or a document, for each change of a job.
func watchJobs(ctx context.Context, a *app, api *client.Client, q client.JobQuery) error {
	rows := newRowLog(a.stdout)
	begun := false
	shown := map[string]string{} // of each job, all but its age
	err := api.WatchJobs(ctx, q, client.JobWatchOptions{
		Broken: func(err error) { a.sayf("the connection is lost, trying again: %v", err) },
	}, func(j *v1.Job, _ int64) error {
		if a.form != output.FormTable {
			return encodeNext(a.stdout, a.form, j)
		}
		row := jobRow(j, a.now())
		if !begun {
			begun = true
			rows.fit(jobColumns(), row, []string{"", "", "submitting"}) // the longest state
			if err := rows.write(jobColumns()); err != nil {
				return err
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
		return rows.write(row)
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // that is how a watch ends
	}
	return err
}

type jobGetCmd struct {
	ID    string
	Watch bool
}

func newJobGetCmd(a *app) *cobra.Command {
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
	f := flagsOf(cmd)
	f.BoolVarP(&c.Watch, "watch", "w", false, "Go on and show each change, until the job has ended.")
	return cmd
}

func (c *jobGetCmd) Run(ctx context.Context, a *app) error {
	api, err := a.dial()
	if err != nil {
		return err
	}
	if c.Watch {
		last, err := a.followJob(ctx, api, c.ID, func(j *v1.Job) bool { return v1.JobEnded(j.State) })
		if err != nil {
			return err
		}
		return a.showJob(last)
	}
	job, err := api.Job(ctx, c.ID)
	if err != nil {
		return err
	}
	return a.showJob(job)
}

// showJob prints all that is known of a job.
func (a *app) showJob(j *v1.Job) error {
	if a.form != output.FormTable {
		return output.Encode(a.stdout, a.form, j)
	}
	if err := jobFacts(j, a.now()).Write(a.stdout); err != nil {
		return err
	}
	if len(j.Attempts) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(a.stdout, "\nEarlier attempts"); err != nil {
		return err
	}
	return earlierAttempts(j).Write(a.stdout)
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
	facts.Row("Event", count(j.Size, "byte"))
	jobTimes(facts, j, now)
	return facts
}

func jobTimes(facts *output.Table, j *v1.Job, now time.Time) {
	moment := func(name string, t *v1.Time) {
		if t != nil {
			facts.Row(name, when(t.Time, now))
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

package clusters

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type topCmd struct {
	Once  bool
	Every time.Duration
}

// topEvery is how often top reads when it is not said.
const topEvery = 2 * time.Second

// Top is `oscarfed top`.
func Top(a *command.App) *cobra.Command {
	c := topCmd{}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Clusters, queues and jobs, live",
		Long: "Clusters, queues and jobs. On a terminal it is drawn again until interrupted; elsewhere it is printed once.\n" +
			"Users see their own jobs, the administrator all.",
		Example: "  oscarfed top\n" +
			"  oscarfed top --once -o json",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
	f := command.FlagsOf(cmd)
	f.BoolVar(&c.Once, "once", false, "Print it once.")
	f.DurationVar(&c.Every, "every", topEvery, "How often it is drawn, at least 1s.")
	return cmd
}

// overview is what top shows; with -o json it is printed so.
type overview struct {
	Clusters []v1.Cluster       `json:"clusters"`
	Capacity []v1.ClusterStatus `json:"capacity"`
	Jobs     *v1.Stats          `json:"jobs"`
}

func (c *topCmd) Run(ctx context.Context, a *command.App) error {
	if c.Every < time.Second {
		return exit.Usagef("--every must be at least 1s")
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	now, err := readOverview(ctx, api)
	switch {
	case err != nil:
		return err
	case a.Form != output.FormTable:
		return a.Encode(now)
	case c.Once || !command.IsTerminal(a.Stdout):
		return now.write(a)
	}
	return c.follow(ctx, a, api, now)
}

// follow draws until ctx ends, or the login. What could be read last stands while the API does not answer.
func (c *topCmd) follow(ctx context.Context, a *command.App, api *client.Client, now *overview) error {
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	var broken error
	for {
		if _, err := fmt.Fprint(a.Stdout, "\x1b[H\x1b[2J"); err != nil { // from the top, all erased
			return err
		}
		if err := now.write(a); err != nil {
			return err
		}
		if broken != nil {
			a.Sayf("trying again: %v", broken)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		next, err := readOverview(ctx, api)
		switch broken = err; {
		case err == nil:
			now = next
		case ctx.Err() == nil && exit.StatusOf(err) == exit.NotAuthorised: // the same again is of no use
			return err
		}
	}
}

func readOverview(ctx context.Context, api *client.Client) (*overview, error) {
	var out overview
	var err error
	if out.Clusters, err = api.Clusters(ctx); err != nil {
		return nil, err
	}
	status, err := api.Status(ctx)
	if err != nil {
		return nil, err
	}
	out.Capacity = status.Clusters
	if out.Jobs, err = api.Stats(ctx, ""); err != nil {
		return nil, err
	}
	return &out, nil
}

func (o *overview) write(a *command.App) error {
	alive := 0
	for i := range o.Clusters {
		if o.Clusters[i].Alive {
			alive++
		}
	}
	if _, err := fmt.Fprintf(a.Stdout, "%s  %d of %s alive  %s\n%s\n", o.Jobs.At.UTC().Format(time.RFC3339), alive,
		output.Count(len(o.Clusters), "cluster"), jobCounts(o.Jobs.Jobs), lately(o.Jobs.Series)); err != nil {
		return err
	}
	return a.PrintTable(o.table())
}

// jobCounts says how many jobs have not ended, or wait for a person.
func jobCounts(jobs map[string]int) string {
	queued, placed := open(jobs)
	texts := []string{fmt.Sprintf("%d queued", queued), fmt.Sprintf("%d at clusters", placed)}
	for _, state := range []string{v1.JobUncertain, v1.JobParked} {
		if n := jobs[state]; n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return "jobs: " + strings.Join(texts, ", ")
}

// open counts the jobs that wait for a cluster, and those that have one.
func open(jobs map[string]int) (queued, placed int) {
	for state, n := range jobs {
		switch {
		case state == v1.JobQueued:
			queued += n
		case state != v1.JobUncertain && !v1.JobEnded(state):
			placed += n
		}
	}
	return queued, placed
}

// lately says what the steps of the last minutes came to.
func lately(s *v1.JobSeries) string {
	const minutes = 10
	if s == nil || s.StepSeconds < 1 {
		return "no jobs lately"
	}
	steps := min(minutes*60/s.StepSeconds, len(s.Started), len(s.Succeeded), len(s.Failed))
	sum := func(all []int) (n int) {
		for _, each := range all[len(all)-steps:] {
			n += each
		}
		return n
	}
	return fmt.Sprintf("last %d min: %d started, %d succeeded, %d failed", minutes, sum(s.Started), sum(s.Succeeded), sum(s.Failed))
}

// table has a row for each cluster.
func (o *overview) table() *output.Table {
	jobs := map[string]map[string]int{}
	for _, c := range o.Jobs.Clusters {
		jobs[c.ClusterID] = c.Jobs
	}
	capacity := map[string]*v1.ClusterStatus{}
	for i := range o.Capacity {
		capacity[o.Capacity[i].ClusterID] = &o.Capacity[i]
	}
	t := output.NewTable("CLUSTER", "STATE", "ALIVE", "CPU FREE", "MEMORY FREE", "QUEUED", "PLACED", "PARKED", "WHAT TO DO").
		Optional("PARKED", "MEMORY FREE", "ALIVE")
	for i := range o.Clusters {
		c := &o.Clusters[i]
		cpu, memory := "-", "-"
		if has := capacity[c.ClusterID]; has != nil && has.Fresh {
			cpu, memory = cpuFree(has), memoryFree(has)
		}
		queued, placed := open(jobs[c.ClusterID])
		t.Row(c.ClusterID, c.State, output.YesNo(c.Alive), cpu, memory, strconv.Itoa(queued), strconv.Itoa(placed),
			strconv.Itoa(jobs[c.ClusterID][v1.JobParked]), cmp.Or(c.Hint, "-"))
	}
	return t
}

package jobs

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// logEvery is the time between two looks at a log that is followed: OSCAR gives it whole
// each time. It doubles, up to logSeldom, while the API does not answer.
const (
	logEvery  = 2 * time.Second
	logSeldom = 10 * time.Second
)

type jobLogsCmd struct {
	Job        string
	Service    string
	Cluster    string
	Timestamps bool
	Follow     bool
}

// Logs is a command of two names: job logs, and logs for short.
func Logs(a *command.App, name string) *cobra.Command {
	var c jobLogsCmd
	cmd := &cobra.Command{
		Use:   "logs SERVICE|JOB",
		Short: "Show what a job has written",
		Long: "Show what a job has written, from the cluster that runs it. JOB may also be the name of its Job\n" +
			"at OSCAR; of a SERVICE it is the newest job whose log you may see.",
		Example: "  oscarfed " + name + " grayify -f\n" +
			"  oscarfed " + name + " 01a1fda3-fc9e-70a6-b6c0-0c2c788607cf",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Job = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	command.NoResult(cmd)
	f := command.FlagsOf(cmd)
	f.Text(&c.Service, "service", "", "", "NAME", "Service of a Job that did not come in here.")
	f.Text(&c.Cluster, "cluster", "", "", "ID", "Cluster of the service, when several have one of that name.")
	f.BoolVarP(&c.Timestamps, "timestamps", "", false, "Begin each line with its time.")
	f.BoolVarP(&c.Follow, "follow", "f", false, "Go on until the job has ended.")
	return cmd
}

func (c *jobLogsCmd) Run(ctx context.Context, a *command.App) error {
	if c.Follow && c.Service != "" {
		return exit.Usagef("--follow is for jobs that came in here; leave --service out")
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	if c.Service != "" {
		text, err := api.JobLog(ctx, c.Service, c.Job, client.LogOptions{ClusterID: c.Cluster, Timestamps: c.Timestamps})
		if err != nil {
			return err
		}
		_, err = a.Stdout.Write(text)
		return err
	}
	id, name := jobOfName(c.Job)
	if uuid.Validate(id) != nil {
		if id, err = c.newestOf(ctx, a, api); err != nil {
			return err
		}
	}
	log := &followed{app: a, api: api, timestamps: c.Timestamps}
	if c.Follow {
		return log.follow(ctx, id, name)
	}
	job, err := api.Job(ctx, id)
	if err != nil {
		return err
	}
	return log.show(ctx, job, name)
}

// newestOf is the newest job of a service whose log the caller may see. Of a service that is shared he sees the jobs of
// others, and not their logs.
func (c *jobLogsCmd) newestOf(ctx context.Context, a *command.App, api *client.Client) (string, error) {
	others := 0
	var me *v1.WhoAmI // asked for once it matters
	for q := (client.JobQuery{Service: c.Job, ClusterID: c.Cluster, Limit: 1}); ; q.Limit = v1.MaxPage {
		page, err := api.Jobs(ctx, q)
		if err != nil {
			return "", err
		}
		for _, j := range page.Jobs {
			if j.By == "" && me == nil { // it is another's, or came by no person
				if me, err = api.WhoAmI(ctx); err != nil {
					return "", err
				}
			}
			if j.By != "" || me.Administrator || me.Owner == j.Owner {
				a.Sayf("job %s, %s", j.ID, j.State)
				return j.ID, nil
			}
			others++
		}
		switch q.Cursor = page.Next; {
		case q.Cursor != "":
		case others > 0:
			return "", exit.Errorf(exit.NotFound, "there is no job of a service %q that you have sent: the logs of others' jobs are for them and for its owner", c.Job)
		default:
			return "", exit.Errorf(exit.NotFound, "there is no job of a service %q", c.Job)
		}
	}
}

// jobOfName is the job of a name at OSCAR, <service>-<job>-<attempt>, with that name; or a
// job as it is.
func jobOfName(s string) (id, name string) {
	const length = 36
	for end := len(s) - 1; end > length; end-- {
		if s[end] != '-' || s[end-length-1] != '-' {
			continue
		}
		if id := s[end-length : end]; uuid.Validate(id) == nil {
			return id, s
		}
	}
	return s, ""
}

// placeOf is where the attempt of a name is, or was; where the job came in for one that is
// not remembered any more.
func placeOf(job *v1.Job, name string) (cluster, service string) {
	number, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	switch {
	case err != nil:
		return job.ClusterID, job.ServiceName
	case job.Place != nil && job.Place.URL == "" && job.Attempt == number:
		return job.Place.ClusterID, job.Place.ServiceName
	}
	for _, a := range job.Attempts {
		if cluster, service, ok := strings.Cut(a.Place, "/"); ok && a.Attempt == number && !strings.Contains(a.Place, "://") {
			return cluster, service
		}
	}
	return job.ClusterID, job.ServiceName
}

// followed is a log as far as it was shown.
type followed struct {
	app        *command.App
	api        *client.Client
	timestamps bool
	name       string
	shown      []byte
}

// follow prints what comes until the job has ended. Once it has seen the job it goes on as a watch does: while the API, or
// the cluster, does not answer, it tries again.
func (f *followed) follow(ctx context.Context, id, name string) error {
	pause := logEvery
	for seen, last := false, false; ; {
		job, err := f.api.Job(ctx, id)
		switch {
		case err == nil:
			ended := v1.JobEnded(job.State)
			if err = f.show(ctx, job, name); ended && (err == nil || last) {
				return err
			}
			// What has ended has a log, and of a cluster that has gone for good it is not waited for.
			seen, last = true, ended
			if exit.StatusOf(err) == exit.NotFound && !ended {
				err = nil // it has none yet
			}
		case !seen:
			return err
		}
		switch {
		case err == nil:
			pause = logEvery
		case ctx.Err() != nil || !client.Transient(err):
			return err
		default:
			f.app.Sayf("the log cannot be read, trying again: %v", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			pause = min(2*pause, logSeldom)
		}
	}
}

// show prints what has come since. name is of one attempt; without it the present one is
// meant, and a new one begins anew.
func (f *followed) show(ctx context.Context, job *v1.Job, name string) error {
	if name == "" {
		if job.Place == nil || job.Place.JobName == "" {
			return exit.Errorf(exit.NotFound, "job %s is %s: no cluster has a log of it", job.ID, State(job))
		}
		name = job.Place.JobName
	}
	cluster, service := placeOf(job, name)
	text, err := f.api.JobLog(ctx, service, name, client.LogOptions{ClusterID: cluster, Timestamps: f.timestamps})
	if err != nil {
		return err
	}
	if f.name != "" && f.name != name {
		f.app.Sayf("%s", State(job))
		f.shown = nil
	}
	f.name = name
	news, same := bytes.CutPrefix(text, f.shown)
	if !same {
		f.app.Sayf("its cluster has dropped the beginning of the log; this is all that is there")
		news = text
	}
	f.shown = text
	_, err = f.app.Stdout.Write(news)
	return err
}

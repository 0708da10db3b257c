package services

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/jobs"
	"github.com/oscarfed/oscarfed/internal/suggest"
)

type waitCmd struct {
	Name    string
	For     string
	Cluster string
	Timeout time.Duration
}

// Wait is `oscarfed wait`.
func Wait(a *command.App) *cobra.Command {
	var c waitCmd
	cmd := &cobra.Command{
		Use:   "wait SERVICE|JOB",
		Short: "Wait until a service or a job has come to a state",
		Long: "Wait until a service's federation is in a phase, until it is deleted, or until a job is in a state. Ends\n" +
			"with 0 when it is, with 1 when a job has ended otherwise, and with 8 when the time is over.",
		Example: "  oscarfed wait grayify --for ready\n" +
			"  oscarfed wait grayify --for deleted --timeout 5m\n" +
			"  oscarfed wait 01a1fda3-fc9e-70a6-b6c0-0c2c788607cf --for succeeded",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Name = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	command.NoResult(cmd)
	f := command.FlagsOf(cmd)
	f.Text(&c.For, "for", "", "", "STATE", "A phase of a federation (ready, degraded ...) or deleted; a state of a job (running, succeeded ...). Without it: ready, or that the job has ended.")
	f.ClusterOf(&c.Cluster)
	f.TimeoutOrNone(&c.Timeout, command.DefaultTimeout, "How long to wait; 0 is as long as it takes.")
	return cmd
}

func (c *waitCmd) Run(ctx context.Context, a *command.App) error {
	wait, words := c.forService, append(v1.FederationPhases(), v1.PhaseDeleted)
	if uuid.Validate(c.Name) == nil {
		wait, words = c.forJob, v1.JobStates()
	}
	c.For = strings.ToLower(c.For)
	if c.For != "" && !slices.Contains(words, c.For) { // it would be waited for in vain
		return exit.Usagef("--for %q is unknown; use one of %s%s", c.For, strings.Join(words, ", "), suggest.Words(c.For, words))
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	return c.within(ctx, a, api, wait)
}

// within waits until the time is over.
func (c *waitCmd) within(ctx context.Context, a *command.App, api *client.Client, wait func(context.Context, *command.App, *client.Client) (string, error)) error {
	waiting := ctx
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	last, err := wait(waiting, a, api)
	if errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil && ctx.Err() == nil {
		return exit.Errorf(exit.InProgress, "%s is not %s after %s; it is %s", c.Name, c.wanted(), c.Timeout, last)
	}
	return err
}

// wanted names, for messages, what is waited for.
func (c *waitCmd) wanted() string {
	switch {
	case c.For != "":
		return c.For
	case uuid.Validate(c.Name) == nil:
		return "ended"
	}
	return v1.PhaseReady
}

// forJob returns the last state that was seen.
func (c *waitCmd) forJob(ctx context.Context, a *command.App, api *client.Client) (string, error) {
	is := func(j *v1.Job) bool { return c.For == "" && v1.JobEnded(j.State) || j.State == c.For }
	last, err := jobs.Follow(ctx, a, api, c.Name, func(j *v1.Job) bool { return is(j) || v1.JobEnded(j.State) })
	switch {
	case last == nil:
		return "not known", err
	case err == nil && !is(last):
		return last.State, exit.Errorf(exit.Failed, "job %s: %s", c.Name, jobs.State(last))
	}
	return last.State, err
}

// forService returns the last phase that was seen.
func (c *waitCmd) forService(ctx context.Context, a *command.App, api *client.Client) (string, error) {
	last, uid := "not known", ""
	err := api.WatchReplicas(ctx, c.Name, client.WatchOptions{
		ClusterID: c.Cluster,
		Broken:    func(err error) { a.Sayf("the connection is lost, trying again: %v", err) },
	}, func(view *v1.Replicas, _ int64) error {
		if view.Phase != last {
			last = view.Phase
			a.Sayf("%s: %s, generation %d", view.GroupID, view.Phase, view.Generation)
		}
		// Another one that has got the name says that the first is gone: of its end nothing needs to have been told.
		uid = cmp.Or(uid, view.UID)
		if view.Phase == c.wanted() || c.For == v1.PhaseDeleted && view.UID != uid {
			return jobs.ErrSeen
		}
		if view.Phase == v1.PhaseAborted || view.Phase == v1.PhaseRolledBack {
			if c.For == v1.PhaseDeleted {
				return jobs.ErrSeen
			}
			sayFailed(a, view, c.Name)
			return exit.Errorf(exit.Failed, "%s: its creation has failed", c.Name)
		}
		return nil
	})
	switch {
	case errors.Is(err, jobs.ErrSeen), c.For == v1.PhaseDeleted && exit.StatusOf(err) == exit.NotFound:
		return last, nil
	}
	return last, err
}

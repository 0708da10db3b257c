package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type jobCancelCmd struct {
	ID string
	command.Asking
}

// Cancel is `oscarfed job cancel`.
func Cancel(a *command.App) *cobra.Command {
	var c jobCancelCmd
	cmd := &cobra.Command{
		Use:     "cancel JOB",
		Short:   "Order the end of a job",
		Example: "  oscarfed job cancel 01a1fda3-fc9e-70a6-b6c0-0c2c788607cf",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ID = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	c.Asking.Flags(command.FlagsOf(cmd))
	return cmd
}

func (c *jobCancelCmd) Run(ctx context.Context, a *command.App) error {
	if err := c.Ask(a, "end job "+c.ID); err != nil {
		return err
	}
	return actOnJob(ctx, a, func(api *client.Client) (*v1.Job, error) { return api.CancelJob(ctx, c.ID) })
}

type jobReplayCmd struct {
	ID string
}

// Replay is `oscarfed job replay`.
func Replay(a *command.App) *cobra.Command {
	var c jobReplayCmd
	return &cobra.Command{
		Use:     "replay JOB",
		Short:   "Give a parked or failed job its attempts again",
		Long:    "Give a job that is parked, or has failed, its attempts again.",
		Example: "  oscarfed job replay 01a1fda3-fc9e-70a6-b6c0-0c2c788607cf",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ID = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
}

func (c *jobReplayCmd) Run(ctx context.Context, a *command.App) error {
	return actOnJob(ctx, a, func(api *client.Client) (*v1.Job, error) { return api.ReplayJob(ctx, c.ID) })
}

type jobResolveCmd struct {
	ID    string
	State string
}

// Resolve is `oscarfed job resolve`.
func Resolve(a *command.App) *cobra.Command {
	var c jobResolveCmd
	cmd := &cobra.Command{
		Use:     "resolve JOB",
		Short:   "Say whether the cluster has an uncertain job",
		Long:    "Say of a job that is uncertain whether its cluster has it.",
		Example: "  oscarfed job resolve 01a1fda3-fc9e-70a6-b6c0-0c2c788607cf --state vanished",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ID = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.Choice(&c.State, "state", "", "submitted or vanished: its cluster has the Job, or neither has it nor will.", "submitted", "vanished")
	f.Required("state")
	return cmd
}

func (c *jobResolveCmd) Run(ctx context.Context, a *command.App) error {
	return actOnJob(ctx, a, func(api *client.Client) (*v1.Job, error) { return api.ResolveJob(ctx, c.ID, c.State) })
}

// actOnJob says where the job stands afterwards.
func actOnJob(ctx context.Context, a *command.App, act func(*client.Client) (*v1.Job, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	job, err := act(api)
	if err != nil {
		return err
	}
	return a.Print(job, func() *output.Table {
		t := output.NewTable(jobColumns()...)
		t.Row(jobRow(job, a.Now())...)
		return t
	})
}

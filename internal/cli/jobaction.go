package cli

import (
	"context"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type jobCancelCmd struct {
	ID string `arg:"" help:"The job."`
}

func (c *jobCancelCmd) Run(ctx context.Context, a *app) error {
	return a.actOnJob(ctx, func(api *client.Client) (*v1.Job, error) { return api.CancelJob(ctx, c.ID) })
}

type jobReplayCmd struct {
	ID string `arg:"" help:"The job."`
}

func (c *jobReplayCmd) Run(ctx context.Context, a *app) error {
	return a.actOnJob(ctx, func(api *client.Client) (*v1.Job, error) { return api.ReplayJob(ctx, c.ID) })
}

type jobResolveCmd struct {
	ID    string `arg:"" help:"The job."`
	State string `env:"-" required:"" enum:"submitted,vanished" help:"${enum}: its cluster has the Job, or neither has it nor will." placeholder:"STATE"`
}

func (c *jobResolveCmd) Run(ctx context.Context, a *app) error {
	return a.actOnJob(ctx, func(api *client.Client) (*v1.Job, error) { return api.ResolveJob(ctx, c.ID, c.State) })
}

// actOnJob says where the job stands afterwards.
func (a *app) actOnJob(ctx context.Context, act func(*client.Client) (*v1.Job, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	api, err := a.dial()
	if err != nil {
		return err
	}
	job, err := act(api)
	if err != nil {
		return err
	}
	return a.print(job, func() *output.Table {
		t := output.NewTable(jobColumns()...)
		t.Row(jobRow(job, a.now())...)
		return t
	})
}

package services

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// runCmd starts, stops or restarts an exposed service on all members of its federation.
type runCmd struct {
	Service string
	Cluster string
	Timeout time.Duration
	send    func(ctx context.Context, api *client.Client, c *runCmd) (*v1.Deployment, error)
}

// ServiceStart is `oscarfed service start`.
func ServiceStart(a *command.App) *cobra.Command {
	return newRunStateCmd(a, "start", "Start an exposed service that was stopped", false)
}

// ServiceStop is `oscarfed service stop`.
func ServiceStop(a *command.App) *cobra.Command {
	return newRunStateCmd(a, "stop", "Stop an exposed service, until it is started", true)
}

func newRunStateCmd(a *command.App, name, short string, stop bool) *cobra.Command {
	c := runCmd{send: func(ctx context.Context, api *client.Client, c *runCmd) (*v1.Deployment, error) {
		return api.SetRunState(ctx, c.Service, c.Cluster, stop, c.Timeout)
	}}
	cmd := c.command(a, name, short)
	cmd.Long = short + ". It holds for all members of its federation, also for those that are away or are added later.\nIts jobs go on."
	command.FlagsOf(cmd).Timeout(&c.Timeout, command.DefaultTimeout, "How long to wait. The work goes on afterwards.")
	return cmd
}

// ServiceRestart is `oscarfed service restart`.
func ServiceRestart(a *command.App) *cobra.Command {
	c := runCmd{send: func(ctx context.Context, api *client.Client, c *runCmd) (*v1.Deployment, error) {
		return api.Restart(ctx, c.Service, c.Cluster)
	}}
	return c.command(a, "restart", "Restart the instances of an exposed service")
}

func (c *runCmd) command(a *command.App, name, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     name + " SERVICE",
		Short:   short,
		Example: "  oscarfed service " + name + " grayify",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	command.FlagsOf(cmd).ClusterOf(&c.Cluster)
	return cmd
}

// Run sends the order and prints how the service stands then.
func (c *runCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	d, err := c.send(ctx, api, c)
	if err != nil {
		return err
	}
	return a.Print(d, func() *output.Table {
		t := output.NewTable("SERVICE", "STATE", "REASON")
		t.Row(d.ServiceName, d.State, d.Reason)
		return t
	})
}

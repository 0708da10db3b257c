package services

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type historyCmd struct {
	Service string
	Cluster string
}

// History is `oscarfed history`.
func History(a *command.App) *cobra.Command {
	var c historyCmd
	cmd := &cobra.Command{
		Use:     "history SERVICE",
		Short:   "List the definitions of a service that are kept",
		Long:    "List the definitions of a service that are kept, newest first.",
		Example: "  oscarfed history grayify",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.ClusterOf(&c.Cluster)
	return cmd
}

func (c *historyCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	list, err := api.History(ctx, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	return a.Print(list, func() *output.Table {
		t := output.NewTable("GENERATION", "CHANGED", "BY", "IMAGE", "MEMBERS", "REQUEST")
		for _, g := range list {
			image, members := "", 0
			if s, _ := oscar.ParseService(g.Service); s != nil {
				image = s.Image
				if s.Federation != nil {
					members = len(s.Federation.Members)
				}
			}
			t.Row(strconv.FormatInt(g.Generation, 10), output.Age(g.ChangedAt.Time, a.Now())+" ago", g.By, image,
				strconv.Itoa(members), g.RequestID)
		}
		return t
	})
}

type rollbackCmd struct {
	Service string
	To      int64
	Cluster string
	waiting
}

// Rollback is `oscarfed rollback`.
func Rollback(a *command.App) *cobra.Command {
	var c rollbackCmd
	cmd := &cobra.Command{
		Use:     "rollback SERVICE",
		Short:   "Go back to an older definition",
		Long:    "Make an older definition of a service the next one, on all its clusters.",
		Example: "  oscarfed rollback grayify --to 3",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.Generation(&c.To, "to", "N", "Generation to go back to; history lists those that are kept.")
	f.ClusterOf(&c.Cluster)
	c.waiting.flags(f)
	f.Required("to")
	return cmd
}

func (c *rollbackCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	before, err := api.Replicas(ctx, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	return c.run(ctx, a, api, changeOf{service: c.Service, cluster: c.Cluster, generation: before.Generation,
		send: func(opts client.ChangeOptions) (*v1.Replicas, error) { return api.Rollback(ctx, c.Service, c.To, opts) }})
}

type pauseCmd struct {
	Service string
	Cluster string
}

// Pause is `oscarfed pause`.
func Pause(a *command.App) *cobra.Command {
	var c pauseCmd
	cmd := &cobra.Command{
		Use:     "pause SERVICE",
		Short:   "Leave a federation's services alone",
		Long:    "Leave the services of a federation alone on their clusters. Changes are applied when it resumes.",
		Example: "  oscarfed pause grayify",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.ClusterOf(&c.Cluster)
	return cmd
}

func (c *pauseCmd) Run(ctx context.Context, a *command.App) error {
	return setPaused(ctx, a, c.Service, c.Cluster, true)
}

type resumeCmd struct {
	Service string
	Cluster string
}

// Resume is `oscarfed resume`.
func Resume(a *command.App) *cobra.Command {
	var c resumeCmd
	cmd := &cobra.Command{
		Use:     "resume SERVICE",
		Short:   "End a pause",
		Example: "  oscarfed resume grayify",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.ClusterOf(&c.Cluster)
	return cmd
}

func (c *resumeCmd) Run(ctx context.Context, a *command.App) error {
	return setPaused(ctx, a, c.Service, c.Cluster, false)
}

func setPaused(ctx context.Context, a *command.App, service, cluster string, paused bool) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	view, err := api.Pause(ctx, service, cluster, paused)
	if err != nil {
		return err
	}
	return a.Print(view, func() *output.Table { return viewTable(view) })
}

package cli

import (
	"context"
	"strconv"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type historyCmd struct {
	Service string `arg:"" help:"Name of the service."`
	Cluster string `help:"Cluster of the service, when several have one of that name." placeholder:"ID"`
}

func (c *historyCmd) Run(ctx context.Context, a *app) error {
	api, err := a.dial()
	if err != nil {
		return err
	}
	list, err := api.History(ctx, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	return a.print(list, func() *output.Table {
		t := output.NewTable("GENERATION", "CHANGED", "BY", "IMAGE", "MEMBERS", "REQUEST")
		for _, g := range list {
			image, members := "", 0
			if s, _ := oscar.ParseService(g.Service); s != nil {
				image = s.Image
				if s.Federation != nil {
					members = len(s.Federation.Members)
				}
			}
			t.Row(strconv.FormatInt(g.Generation, 10), output.Age(g.ChangedAt.Time, a.now())+" ago", g.By, image,
				strconv.Itoa(members), g.RequestID)
		}
		return t
	})
}

type rollbackCmd struct {
	Service string `arg:"" help:"Name of the service."`
	To      int64  `env:"-" required:"" help:"Generation to go back to; history lists those that are kept." placeholder:"N"`
	Cluster string `help:"Cluster of the service, when several have one of that name." placeholder:"ID"`
	waiting
}

func (c *rollbackCmd) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	api, err := a.dial()
	if err != nil {
		return err
	}
	return c.run(ctx, a, api, changeOf{service: c.Service, cluster: c.Cluster,
		send: func(opts client.ChangeOptions) (*v1.Replicas, error) { return api.Rollback(ctx, c.Service, c.To, opts) }})
}

type pauseCmd struct {
	Service string `arg:"" help:"Name of the service."`
	Cluster string `help:"Cluster of the service, when several have one of that name." placeholder:"ID"`
}

func (c *pauseCmd) Run(ctx context.Context, a *app) error {
	return setPaused(ctx, a, c.Service, c.Cluster, true)
}

type resumeCmd struct {
	Service string `arg:"" help:"Name of the service."`
	Cluster string `help:"Cluster of the service, when several have one of that name." placeholder:"ID"`
}

func (c *resumeCmd) Run(ctx context.Context, a *app) error {
	return setPaused(ctx, a, c.Service, c.Cluster, false)
}

func setPaused(ctx context.Context, a *app, service, cluster string, paused bool) error {
	api, err := a.dial()
	if err != nil {
		return err
	}
	view, err := api.Pause(ctx, service, cluster, paused)
	if err != nil {
		return err
	}
	return a.print(view, func() *output.Table { return viewTable(view) })
}

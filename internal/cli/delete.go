package cli

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

type deleteCmd struct {
	Service string        `arg:"" help:"Name of the service. On a replica that is not the coordinator, only that replica goes."`
	Cluster string        `help:"Cluster of the service, when several have one of that name." placeholder:"ID"`
	Data    string        `env:"-" help:"delete: also delete the buckets that were made for the service, with what is in them." placeholder:"WORD"`
	Jobs    string        `env:"-" help:"cancel: end running jobs instead of waiting for them." placeholder:"WORD"`
	Wait    bool          `negatable:"" default:"true" help:"Wait until every cluster has done it."`
	Timeout time.Duration `default:"60s" help:"How long to wait. The work goes on afterwards." placeholder:"60s"`
}

// checkOrders checks what may be ordered with a deletion.
func checkOrders(data, jobs string) error {
	switch {
	case data != "" && data != "delete":
		return exit.Usagef("--data %q is unknown; the only order is delete", data)
	case jobs != "" && jobs != "cancel":
		return exit.Usagef("--jobs %q is unknown; the only order is cancel", jobs)
	}
	return nil
}

func (c *deleteCmd) Run(ctx context.Context, a *app) error {
	if c.Timeout <= 0 {
		return exit.Usagef("--timeout must be more than 0; --no-wait does not wait")
	}
	if err := checkOrders(c.Data, c.Jobs); err != nil {
		return err
	}
	api, err := a.dial()
	if err != nil {
		return err
	}
	opts := client.DeleteOptions{ClusterID: c.Cluster, Data: c.Data, Jobs: c.Jobs, IdempotencyKey: uuid.NewString()}
	if c.Wait {
		opts.Wait = c.Timeout
	}
	result, err := api.DeleteService(ctx, c.Service, opts)
	if err != nil {
		return err
	}
	if result.Pending == 0 {
		a.sayf("%s is deleted", c.Service)
		a.sayDeleted(result.Replicas)
		return nil
	}
	if c.Wait {
		a.sayDeleted(result.Replicas)
		return exit.Errorf(exit.InProgress, "%s is deleted; %s not yet gone: away, busy with jobs, or slow. They go by themselves",
			c.Service, count(result.Pending, "replica"))
	}
	a.sayf("%s is deleted; %s not yet gone", c.Service, count(result.Pending, "replica"))
	return nil
}

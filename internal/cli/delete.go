package cli

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

type deleteCmd struct {
	Service string
	Cluster string
	Data    string
	Jobs    string
	Wait    bool
	Timeout time.Duration
}

func newDeleteCmd(a *app) *cobra.Command {
	var c deleteCmd
	cmd := &cobra.Command{
		Use:   "delete SERVICE",
		Short: "Delete a service on all its clusters",
		Long: "Delete a service on all its clusters. Buckets, volumes and running jobs stay unless ordered\n" +
			"otherwise. Of a replica that is not the coordinator, only that replica goes.",
		Example: "  oscarfed delete grayify\n" +
			"  oscarfed delete grayify --data delete --jobs cancel",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := flagsOf(cmd)
	f.text(&c.Cluster, "cluster", "", "", "ID", "Cluster of the service, when several have one of that name.")
	f.text(&c.Data, "data", "", "", "WORD", "delete: also delete the buckets that were made for the service, with what is in them.")
	f.text(&c.Jobs, "jobs", "", "", "WORD", "cancel: end running jobs instead of waiting for them.")
	f.yesOrNo(&c.Wait, "wait", true, "Wait until every cluster has done it.")
	f.duration(&c.Timeout, "timeout", defaultTimeout, "How long to wait. The work goes on afterwards.")
	return cmd
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

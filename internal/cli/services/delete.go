package services

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type deleteCmd struct {
	// File names the services instead of the command line.
	File string
	command.Asking
	Service string
	Cluster string
	Data    string
	Jobs    string
	Wait    bool
	Timeout time.Duration
}

// Delete is `oscarfed delete`.
func Delete(a *command.App) *cobra.Command {
	var c deleteCmd
	cmd := &cobra.Command{
		Use:   "delete [SERVICE]",
		Short: "Delete a service on all its clusters",
		Long: "Delete a service on all its clusters. Buckets, volumes and running jobs stay unless ordered\n" +
			"otherwise. Of a replica that is not the coordinator, only that replica goes.",
		Example: "  oscarfed delete grayify\n" +
			"  oscarfed delete -f service.yaml --yes\n" +
			"  oscarfed delete grayify --data delete --jobs cancel",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = command.Argument(args, 0)
			return c.Run(cmd.Context(), a)
		},
	}
	command.NoResult(cmd)
	f := command.FlagsOf(cmd)
	f.File(&c.File, "Delete the services of this FDL, the last one first; - reads it from standard input.")
	c.Asking.Flags(f)
	f.ClusterOf(&c.Cluster)
	f.Text(&c.Data, "data", "", "", "WORD", "delete: also delete the buckets that were made for the service, with what is in them.")
	f.Text(&c.Jobs, "jobs", "", "", "WORD", "cancel: end running jobs instead of waiting for them.")
	f.YesOrNo(&c.Wait, "wait", "Wait until every cluster has done it.")
	f.Timeout(&c.Timeout, command.DefaultTimeout, "How long to wait. The work goes on afterwards.")
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

func (c *deleteCmd) Run(ctx context.Context, a *command.App) error {
	if err := checkOrders(c.Data, c.Jobs); err != nil {
		return err
	}
	services, err := c.services(a)
	if err != nil {
		return err
	}
	// What was read from a terminal leaves no answer to read.
	c.Yes = c.Yes || c.File == fdl.Stdin
	if err := c.Ask(a, question(services)); err != nil {
		return err
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	return c.deleteEach(ctx, a, api, services)
}

// deleteEach deletes services one after the other. One that is not there, or is not yet gone everywhere, keeps none of
// the others: a deletion that was broken off can be done again.
func (c *deleteCmd) deleteEach(ctx context.Context, a *command.App, api *client.Client, services []toDelete) error {
	status, failed := exit.Done, 0
	for i, s := range services {
		err := c.delete(ctx, a, api, s)
		now := exit.StatusOf(err)
		switch {
		case err == nil:
			continue
		case len(services) == 1:
			return err
		case now != exit.NotFound && now != exit.InProgress || ctx.Err() != nil:
			if rest := services[i+1:]; len(rest) > 0 {
				a.Sayf("not tried after %s: %s", s.service, namesOf(rest))
			}
			return err
		}
		output.Failure(a.Stderr, a.Form, err)
		status, failed = max(status, now), failed+1
	}
	if failed == 0 {
		return nil
	}
	return exit.Errorf(status, "of %s %d were not there, or are not gone yet", output.Count(len(services), "service"), failed)
}

// toDelete is a service and its cluster, which may be empty.
type toDelete struct {
	service, cluster string
	// uid of the federation that it must be the coordinator of; empty demands none.
	uid string
}

// services are those of the command line or of the FDL, the last of which may need those before it.
func (c *deleteCmd) services(a *command.App) ([]toDelete, error) {
	switch {
	case c.Service != "" && c.File != "":
		return nil, exit.Usagef("SERVICE and -f are given: leave one of them out")
	case c.Service == "" && c.File == "":
		return nil, exit.Usagef("SERVICE is missing: oscarfed delete SERVICE, or oscarfed delete -f FILE")
	case c.File == "":
		return []toDelete{{service: c.Service, cluster: c.Cluster}}, nil
	}
	list, err := readServices(c.File, c.Cluster, a.Stdin)
	if err != nil {
		return nil, err
	}
	var services []toDelete
	for _, s := range slices.Backward(list) {
		services = append(services, toDelete{service: s.Name, cluster: s.ClusterID})
	}
	return services, nil
}

// question names the services that are deleted.
func question(services []toDelete) string {
	return "delete " + namesOf(services) + " on all clusters"
}

func namesOf(services []toDelete) string {
	var names []string
	for _, s := range services {
		names = append(names, s.service)
	}
	return strings.Join(names, ", ")
}

// maxDeleteTries is how often a deletion is sent to a federation whose record is written meanwhile.
const maxDeleteTries = 10

// delete deletes a service. Where its federation must be a certain one, the deletion is bound to the revision that it
// has by now: each change of it makes another one. What was deleted or made again since is no failure.
func (c *deleteCmd) delete(ctx context.Context, a *command.App, api *client.Client, s toDelete) error {
	if s.uid == "" {
		return c.send(ctx, a, api, s, 0)
	}
	revision, refused := int64(0), error(nil)
	for tries := 0; ; tries++ {
		now, err := api.Federation(ctx, s.uid)
		switch {
		case exit.StatusOf(err) == exit.NotFound || err == nil && over(now.Phase):
			return nil
		case err != nil:
			return err
		case refused != nil && (now.Revision == revision || tries == maxDeleteTries):
			return refused
		}
		revision = now.Revision
		refused = c.send(ctx, a, api, s, revision)
		if status := exit.StatusOf(refused); status != exit.Conflict && status != exit.NotFound {
			return refused
		}
	}
}

// send sends a deletion. revision is what the federation must have; 0 demands none.
func (c *deleteCmd) send(ctx context.Context, a *command.App, api *client.Client, s toDelete, revision int64) error {
	opts := client.DeleteOptions{ClusterID: s.cluster, Data: c.Data, Jobs: c.Jobs, IfMatch: revision, IdempotencyKey: uuid.NewString()}
	if c.Wait {
		opts.Wait = c.Timeout
	}
	result, err := api.DeleteService(ctx, s.service, opts)
	if err != nil {
		return err
	}
	if result.Pending == 0 {
		a.Sayf("%s is deleted", s.service)
		sayDeleted(a, result.Replicas)
		return nil
	}
	if c.Wait {
		sayDeleted(a, result.Replicas)
		return exit.Errorf(exit.InProgress, "%s is deleted; %s not yet gone: away, busy with jobs, or slow. They go by themselves",
			s.service, output.Count(result.Pending, "replica"))
	}
	a.Sayf("%s is deleted; %s not yet gone", s.service, output.Count(result.Pending, "replica"))
	return nil
}

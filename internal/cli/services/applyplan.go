package services

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/cli/plans"
)

// applyPlan does what a file planned, or nothing of it. Everything is looked at
// again before the first service is written; each write is bound to its plan too,
// so that what comes in between is refused by the control plane.
func (c *applyCmd) applyPlan(ctx context.Context, a *command.App) error {
	if c.File != "" || c.Cluster != "" || c.Deployment != "" || c.IdempotencyKey != "" {
		return exit.Usagef("--plan says everything: leave out -f, --cluster, --deployment and --idempotency-key")
	}
	file, err := plans.Read(c.Plan)
	if err != nil {
		return err
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	refused := 0
	for _, s := range file.Services {
		why, err := c.outdated(ctx, api, s)
		if err != nil {
			return err
		}
		for _, line := range why {
			a.Sayf("%s: %s", s.Of().Name, line)
		}
		if len(why) > 0 {
			refused++
		}
	}
	if refused > 0 {
		return exit.Errorf(exit.Conflict, "%s of %s cannot be applied as planned; nothing is written. Plan again", output.Count(refused, "service"), c.Plan)
	}
	return a.Together(len(file.Services), func(a *command.App) error { return c.writePlanned(ctx, a, api, file.Services) })
}

// writePlanned writes services one after the other until one fails.
func (c *applyCmd) writePlanned(ctx context.Context, a *command.App, api *client.Client, services []plans.Service) error {
	for i, s := range services {
		if s.Plan.Action == v1.PlanNone {
			a.Sayf("%s: unchanged, generation %d", s.Of().Name, s.Plan.Generation)
			continue
		}
		if err := c.write(ctx, a, api, s); err != nil {
			for _, rest := range services[i+1:] {
				a.Sayf("%s: not tried", rest.Of().Name)
			}
			return err
		}
	}
	return nil
}

// outdated says what keeps a plan from being applied as it is; an error when it
// cannot be found out.
func (c *applyCmd) outdated(ctx context.Context, api *client.Client, s plans.Service) ([]string, error) {
	now, err := api.Plan(ctx, s.Of(), client.PlanOptions{Deployment: s.Deployment})
	if e, ok := errors.AsType[*client.Error](err); ok {
		switch exit.StatusOf(err) {
		case exit.Invalid, exit.Conflict, exit.NotFound:
			lines := output.ProblemLines(e.Problem)
			lines[0] = e.Problem.Title + ": " + e.Problem.Detail
			return lines, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if now.Digest != s.Plan.Digest {
		return sincePlanned(s.Plan, now), nil
	}
	if !plans.Shows(s.Plan, now) {
		return nil, exit.Errorf(exit.Invalid, "%s: the file shows another plan than the one that its digest names; it was edited. Nothing is written", s.Of().Name)
	}
	return nil, nil
}

func (c *applyCmd) write(ctx context.Context, a *command.App, api *client.Client, s plans.Service) error {
	if s.Plan.Action == v1.PlanCreate {
		return c.create(ctx, a, api, s.Of(), client.CreateOptions{Deployment: s.Deployment, Plan: s.Plan.Digest})
	}
	return c.waiting.run(ctx, a, api, changeOf{
		service: s.Of().Name, cluster: s.Plan.Coordinator.ClusterID, generation: s.Plan.Generation,
		send: func(opts client.ChangeOptions) (*v1.Replicas, error) {
			opts.IfMatch, opts.Plan = s.Plan.Revision, s.Plan.Digest
			return api.ChangeService(ctx, s.Of(), opts)
		},
	})
}

// sincePlanned compares two plans of the same definition whose digests differ.
func sincePlanned(planned, now *v1.Plan) []string {
	var why []string
	sayf := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	switch {
	case planned.Owner != now.Owner && planned.Action == v1.PlanCreate:
		sayf("%s planned it, and %s applies it", planned.Owner, now.Owner)
	case planned.UID == "" && now.UID != "":
		sayf("it was to be created, and is there since: generation %d of federation %s", now.Generation, now.GroupID)
	case planned.UID != "" && now.UID == "":
		sayf("it was to be changed, and is gone since")
	case planned.UID != now.UID:
		sayf("it was deleted and created again since")
	case planned.Generation != now.Generation:
		sayf("its generation was %d, and is %d since", planned.Generation, now.Generation)
	case planned.Revision != now.Revision:
		sayf("its federation was written since: revision %d, then %d", planned.Revision, now.Revision)
	}
	if planned.ClustersRevision != now.ClustersRevision && planned.ClustersRevision != 0 && now.ClustersRevision != 0 {
		sayf("the set of clusters or the state of one has changed since")
	}
	then := map[string]v1.PlanReplica{}
	for _, r := range planned.Replicas {
		then[r.ClusterID+"/"+r.ServiceName] = r
	}
	for _, r := range now.Replicas {
		name := r.ClusterID + "/" + r.ServiceName
		was, ok := then[name]
		delete(then, name)
		switch {
		case !ok:
			sayf("%s was not planned, and would be: %s", name, r.Action)
		case was.Action != r.Action:
			sayf("%s was planned as: %s, and would be: %s", name, was.Action, r.Action)
		case was.Spec != r.Spec:
			sayf("%s would be sent another definition", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(then)) {
		sayf("%s was planned as: %s, and is no member any more", name, then[name].Action)
	}
	if len(why) == 0 {
		sayf("the definition, its secrets or the digest in the file are not those that were planned, or somebody else planned it")
	}
	return why
}

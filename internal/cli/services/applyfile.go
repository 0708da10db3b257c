package services

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// applyFile applies the services of one file as a unit: all of them are planned before the first
// is written, and those that are new are created all or none. Then those that are there already are
// changed, one after the other; a change that fails takes nothing back.
func (c *applyCmd) applyFile(ctx context.Context, a *command.App, api *client.Client, services []fdl.Service) error {
	fresh, there, err := newAndThere(ctx, api, services)
	if err != nil {
		return err
	}
	err = c.createTogether(ctx, a, api, fresh)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Problem.Phase == "" && e.Code() == v1.CodeAlreadyExists {
		// An equal request, perhaps of an apply that was interrupted, has made some since.
		if fresh, there, err = newAndThere(ctx, api, services); err == nil {
			err = c.createTogether(ctx, a, api, fresh)
		}
	}
	if err != nil {
		return err
	}
	return c.changeEach(ctx, a, api, there, len(services))
}

// changeEach changes those of a file that are there, one after the other, until a person interrupts it. The last
// failure is the result.
func (c *applyCmd) changeEach(ctx context.Context, a *command.App, api *client.Client, there []fdl.Service, all int) (failed error) {
	n := 0
	for i, s := range there {
		err := c.create(ctx, a, api, s.Service, client.CreateOptions{})
		if err == nil {
			continue
		}
		if failed != nil {
			output.Failure(a.Stderr, a.Form, failed)
		}
		if failed = ofDefined(err, s); ctx.Err() != nil {
			sayNotTried(a, len(there)-i-1, "service", s.Name)
			return failed
		}
		n++
	}
	if n > 0 {
		a.Sayf("%s of %d could not be changed; what else the file has is applied", output.Count(n, "service"), all)
	}
	return failed
}

// newAndThere plans all services of a file, and tells those that are to be created from those that
// are there. One whose creation is under way counts as new: an equal request waits for its outcome.
func newAndThere(ctx context.Context, api *client.Client, services []fdl.Service) (fresh, there []fdl.Service, err error) {
	for _, s := range services {
		plan, err := api.Plan(ctx, s.Service, client.PlanOptions{})
		e, refused := errors.AsType[*client.Error](err)
		switch {
		case refused && e.Code() == v1.CodeConflict && beingCreated(ctx, api, s):
			fresh = append(fresh, s)
		case refused && e.Code() == v1.CodeConflict:
			there = append(there, s) // another change of it comes first
		case err != nil:
			return nil, nil, ofDefined(err, s)
		case plan.Action == v1.PlanCreate:
			fresh = append(fresh, s)
		default:
			there = append(there, s)
		}
	}
	return fresh, there, nil
}

func beingCreated(ctx context.Context, api *client.Client, s fdl.Service) bool {
	view, err := api.Replicas(ctx, s.Name, s.ClusterID)
	return err == nil && slices.Contains([]string{v1.PhasePreparing, v1.PhaseApplying, v1.PhaseRollingBack}, view.Phase)
}

// createTogether creates services, all or none.
func (c *applyCmd) createTogether(ctx context.Context, a *command.App, api *client.Client, services []fdl.Service) error {
	switch len(services) {
	case 0:
		return nil
	case 1:
		err := c.create(ctx, a, api, services[0].Service, client.CreateOptions{IdempotencyKey: c.IdempotencyKey})
		return ofDefined(err, services[0])
	}
	opts := repeatable(client.CreateOptions{Wait: c.Timeout, Async: !c.Wait, IdempotencyKey: c.IdempotencyKey})
	list := make([]*oscar.Service, len(services))
	for i, s := range services {
		list[i] = s.Service
	}
	started := a.Now()
	result, err := api.CreateServices(ctx, list, opts)
	if err != nil {
		return c.explain(a, ofDefined(err, services...), opts)
	}
	var replicas []v1.Replica
	for _, f := range result.Federations {
		replicas = append(replicas, f.Replicas...)
		a.Sayf("%s: %s, %d of %s ready", f.GroupID, f.Phase, ready(&f), output.Count(len(deployed(&f)), "replica"))
	}
	if result.Done {
		a.Sayf("%s created together after %s", output.Count(len(services), "service"), a.Now().Sub(started).Round(10*time.Millisecond))
	} else {
		a.Sayf("%s accepted; oscarfed get federations shows how they go on", output.Count(len(services), "service"))
	}
	return a.Print(result.Federations, func() *output.Table { return replicaTable(replicas) })
}

// ofDefined says in an answer which of the services of a file it is about, and where that stands.
// An answer about several names them by their place, as services[1].image.
func ofDefined(err error, services ...fdl.Service) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	told := *e
	told.Problem.Violations = nil
	for _, v := range e.Problem.Violations {
		v.Path = placeInFile(v.Path, services)
		told.Problem.Violations = append(told.Problem.Violations, v)
	}
	if len(services) == 1 && len(told.Problem.Violations) == 0 {
		told.Problem.Title = services[0].At() + ": " + told.Problem.Title
	}
	return &told
}

// placeInFile turns the path of a violation into the name and line of a service, and the path in it.
func placeInFile(path string, services []fdl.Service) string {
	if len(services) == 1 {
		return strings.TrimSuffix(services[0].At()+": "+path, ": ")
	}
	for i, s := range services {
		prefix := fmt.Sprintf("services[%d]", i)
		if rest, ok := strings.CutPrefix(path, prefix); ok && (rest == "" || rest[0] == '.') {
			return strings.TrimSuffix(s.At()+": "+strings.TrimPrefix(rest, "."), ": ")
		}
	}
	return path
}

// asUnit says whether a file is applied as a unit.
func (c *applyCmd) asUnit(services []fdl.Service) (bool, error) {
	switch {
	case c.Each || len(services) == 1:
		return false, nil
	case c.Deployment != "":
		return false, exit.Usagef("the %d services of %s are created all or none; with --deployment apply them by --each", len(services), c.File)
	}
	return true, nil
}

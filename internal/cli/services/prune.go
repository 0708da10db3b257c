package services

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// pruning are the flags of apply that delete what the files have no longer.
type pruning struct {
	Prune    bool
	Selector string
	command.Asking
}

func (p *pruning) flags(f command.Flags) {
	f.BoolVar(&p.Prune, "prune", false, "Then delete your services with the labels of -l that none of the files has. Buckets and jobs stay.")
	f.Text(&p.Selector, "selector", "l", "", "LABELS", "With --prune: only those with these labels, as in app=plants.")
	p.Asking.Flags(f)
}

// check refuses to prune without a selector: it would delete all that the files do not have.
func (p *pruning) check(from string) error {
	switch {
	case !p.Prune && p.Selector != "":
		return exit.Usagef("--selector goes with --prune")
	case !p.Prune:
		return nil
	case from == "" || from == fdl.Stdin:
		return exit.Usagef("--prune needs all services as files: apply -f FOLDER --prune -l LABELS")
	}
	selector, err := labels.Parse(p.Selector)
	if err != nil {
		return exit.Usagef("--selector: %w", err)
	}
	if selector.Empty() {
		return exit.Usagef("--prune needs --selector: it says which services are those of the files")
	}
	return nil
}

// pruned applies, and then deletes what the files have no longer, if that is asked for. What would be
// deleted is found and shown before anything is written.
func (c *applyCmd) pruned(ctx context.Context, a *command.App, files []string, apply func() error) error {
	if !c.Prune {
		return apply()
	}
	var kept []fdl.Service
	for _, file := range files {
		services, err := readServices(file, c.Cluster, a.Stdin)
		if err != nil {
			return err
		}
		kept = append(kept, services...)
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	gone, err := c.find(ctx, api, kept)
	if err != nil {
		return err
	}
	if err := c.ask(a, gone, c.DryRun); err != nil {
		return err
	}
	if err := apply(); err != nil || c.DryRun {
		return err
	}
	return c.delete(ctx, a, api, gone, c.waiting)
}

// find lists the services that would be deleted: the caller's own, by their coordinators.
func (p *pruning) find(ctx context.Context, api *client.Client, kept []fdl.Service) ([]v1.Federation, error) {
	me, err := api.WhoAmI(ctx)
	if err != nil {
		return nil, err
	}
	is := func(f *v1.Federation) func(fdl.Service) bool {
		return func(s fdl.Service) bool {
			return s.Name == f.Coordinator.ServiceName && (s.ClusterID == "" || s.ClusterID == f.Coordinator.ClusterID)
		}
	}
	var out []v1.Federation
	list, err := api.FederationsOf(ctx, client.ListQuery{Label: p.Selector, Owner: me.Owner})
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		// What would be deleted is not left to how well a server knows the query.
		if !over(f.Phase) && f.Owner == me.Owner && !slices.ContainsFunc(kept, is(&f)) {
			out = append(out, f)
		}
	}
	return out, nil
}

// ask names what would be deleted.
func (p *pruning) ask(a *command.App, list []v1.Federation, dryRun bool) error {
	if len(list) == 0 {
		return nil
	}
	var names []string
	for _, f := range list {
		names = append(names, f.Coordinator.ServiceName)
	}
	what := strings.Join(names, ", ")
	if dryRun {
		a.Sayf("%s would be deleted: %s", output.Count(len(list), "service"), what)
		return nil
	}
	return p.Ask(a, "apply, and then delete "+what+" on all clusters")
}

// delete deletes what was shown, unless it was deleted or made again since.
func (p *pruning) delete(ctx context.Context, a *command.App, api *client.Client, list []v1.Federation, w waiting) error {
	var services []toDelete
	for _, f := range list {
		services = append(services, toDelete{f.Coordinator.ServiceName, f.Coordinator.ClusterID, f.UID})
	}
	c := deleteCmd{Wait: w.Wait, Timeout: w.Timeout}
	return c.deleteEach(ctx, a, api, services)
}

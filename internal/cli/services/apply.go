package services

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type applyCmd struct {
	waiting
	pruning
	tokenOf

	Strict         bool
	File           string
	Plan           string
	Cluster        string
	Deployment     string
	IdempotencyKey string
	Each           bool
	Recursive      bool
	DryRun         bool
}

// Apply is `oscarfed apply`.
func Apply(a *command.App) *cobra.Command {
	var c applyCmd
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Create or change the services of an FDL",
		Long: "Create the services of an FDL on their clusters, all or none; change those that are there. A file of\n" +
			"several services is one unit: all are validated first, and the new ones are created all or none. For\n" +
			"programs (-o json) the results of several are one list.",
		Example: "  oscarfed apply -f service.yaml\n" +
			"  oscarfed apply -f service.yaml --timeout 5m\n" +
			"  oscarfed apply -f services/ -R --dry-run\n" +
			"  oscarfed apply -f services/ --prune -l app=plants\n" +
			"  oscarfed plan -f service.yaml --out service.plan && oscarfed apply --plan service.plan",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
	f := command.FlagsOf(cmd)
	f.BoolVar(&c.Strict, "strict", false, "Refuse a definition with keys that nothing knows, instead of a warning.")
	f.File(&c.File, "The FDL, or a folder of FDLs (.yaml, .yml); - reads one from standard input.")
	f.BoolVarP(&c.Recursive, "recursive", "R", false, "With a folder: also those below it.")
	f.BoolVar(&c.DryRun, "dry-run", false, "Show what would be written, as plan does, and write nothing.")
	f.Text(&c.Plan, "plan", "", "", "FILE", "A file that plan --out wrote: does exactly that, or refuses with status 6 and writes nothing.")
	f.Text(&c.Cluster, "cluster", "", "", "ID", "Cluster of the coordinator, when the FDL names none.")
	f.YesOrNo(&c.Wait, "wait", "Wait until every replica is ready, or the creation failed and is taken back; after a change, until it is applied.")
	f.Timeout(&c.Timeout, command.DefaultTimeout, "How long to wait. The work goes on afterwards.")
	f.Text(&c.Deployment, "deployment", "", "", "WORD", "transactional: on all clusters or on none. best-effort: where it is possible, and elsewhere later. Overrides the FDL of a creation.")
	c.tokenOf.flag(f)
	f.Text(&c.IdempotencyKey, "idempotency-key", "", "", "KEY", "Key of this request: sent again with the same key, it has the same outcome.")
	c.pruning.flags(f)
	f.BoolVar(&c.Each, "each", false, "Create or change the services of the file one after the other, and stop at the first that fails.")
	return cmd
}

// Run applies a file as a unit or, with --each, its services one after the other until one fails;
// and the files of a folder one after the other.
func (c *applyCmd) Run(ctx context.Context, a *command.App) error {
	if err := c.pruning.check(c.File); err != nil {
		return err
	}
	if c.File == "" && c.Plan == "" {
		return exit.Usagef("missing flags: --file=FILE or --plan=FILE")
	}
	if c.Plan != "" {
		if c.RefreshTokenFile != "" {
			return exit.Usagef("--plan is exactly what was planned: give --refresh-token-file to plan")
		}
		return c.applyPlan(ctx, a)
	}
	files, err := fdl.Files(c.File, c.Recursive)
	if err != nil {
		return err
	}
	if c.RefreshTokenFile != "" && len(files) > 1 {
		return exit.Usagef("--refresh-token-file is for one service; %s has %d files", c.File, len(files))
	}
	if c.IdempotencyKey != "" && len(files) > 1 {
		return exit.Usagef("--idempotency-key is for one file; %s has %d", c.File, len(files))
	}
	return c.pruned(ctx, a, files, func() error {
		return a.Together(len(files), func(a *command.App) error { return c.runFiles(ctx, a, files) })
	})
}

// runFiles applies files one after the other until one fails.
func (c *applyCmd) runFiles(ctx context.Context, a *command.App, files []string) error {
	for i, file := range files {
		one := *c
		one.File = file
		if len(files) > 1 {
			a.Sayf("%s:", file)
		}
		if err := one.runFile(ctx, a); err != nil {
			sayNotTried(a, len(files)-i-1, "file", file)
			return err
		}
	}
	return nil
}

// sayNotTried says how much of a list was not tried after the last one that was.
func sayNotTried(a *command.App, rest int, noun, last string) {
	if rest > 0 {
		a.Sayf("not tried: %s after %s", output.Count(rest, noun), last)
	}
}

// runFile applies one file.
func (c *applyCmd) runFile(ctx context.Context, a *command.App) error {
	if c.DryRun {
		return (&planCmd{tokenOf: c.tokenOf, File: c.File, Cluster: c.Cluster, Deployment: c.Deployment, Strict: c.Strict}).Run(ctx, a)
	}
	services, err := readServices(c.File, c.Cluster, a.Stdin)
	if err != nil {
		return err
	}
	if err := c.give(a, c.File, services); err != nil {
		return err
	}
	if err := warnOf(a, services, c.Strict); err != nil {
		return err
	}
	unit, err := c.asUnit(services)
	if err != nil {
		return err
	}
	if c.IdempotencyKey != "" && len(services) > 1 && !unit {
		return exit.Usagef("--idempotency-key is for one service; %s has %d", c.File, len(services))
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	warnOfEmptySecrets(ctx, a, api, services)
	return a.Together(len(services), func(a *command.App) error {
		if unit {
			return c.applyFile(ctx, a, api, services)
		}
		return c.applyEach(ctx, a, api, services)
	})
}

// applyEach applies services one after the other until one fails.
func (c *applyCmd) applyEach(ctx context.Context, a *command.App, api *client.Client, services []fdl.Service) error {
	for i, s := range services {
		opts := client.CreateOptions{Deployment: c.Deployment, IdempotencyKey: c.IdempotencyKey}
		if err := c.create(ctx, a, api, s.Service, opts); err != nil {
			sayNotTried(a, len(services)-i-1, "service", s.Name)
			return err
		}
	}
	return nil
}

// create posts one service and follows its replicas until the answer comes. One
// that is there already is changed, unless the creation was planned.
func (c *applyCmd) create(ctx context.Context, a *command.App, api *client.Client, s *oscar.Service, opts client.CreateOptions) error {
	opts.Wait = c.Timeout
	opts = repeatable(opts)
	if !c.Wait {
		opts.Async = true
		result, err := api.CreateService(ctx, s, opts)
		if opts.Plan == "" && mayBeThere(err) {
			return c.change(ctx, a, api, s, err)
		}
		if err != nil {
			return c.explain(a, err, opts)
		}
		a.Sayf("%s is accepted, phase %s; oscarfed describe %s shows how it goes on", s.Name, result.Replicas.Phase, s.Name)
		return a.Print(result.Replicas, func() *output.Table { return viewTable(result.Replicas) })
	}

	started := a.Now()
	var result *client.CreateResult
	p, err := showing(ctx, a, source{api: api, service: s.Name, cluster: s.ClusterID}, func() (err error) {
		result, err = api.CreateService(ctx, s, opts)
		return err
	})
	if opts.Plan == "" && mayBeThere(err) {
		return c.change(ctx, a, api, s, err)
	}
	if err != nil {
		return c.explain(a, err, opts)
	}
	f, err := api.Federation(ctx, result.Replicas.UID)
	if err != nil {
		// It is created: that its state cannot be shown is no failure of the creation.
		a.Sayf("%s is created; its state could not be read: %v", s.Name, err)
		return nil
	}
	p.show(f)
	if result.Replayed {
		a.Sayf("%s: an earlier request with this key had this outcome", s.Name)
	}
	took := a.Now().Sub(started).Round(10 * time.Millisecond)
	a.Sayf("%s: %s, %d of %s ready after %s", s.Name, f.Phase, ready(f), output.Count(len(deployed(f)), "replica"), took)
	if ready(f) < len(deployed(f)) {
		a.Sayf("the others follow when their clusters are back; oscarfed describe %s shows them", s.Name)
	}
	return a.Print(f, func() *output.Table { return replicaTable(f.Replicas) })
}

// repeatable lets a creation be sent again. Without a key of the caller its content names it: the
// control plane joins it to an equal one that is under way, also to that of an apply that was
// interrupted, and what exists by then is changed. A plan has a key, since it is not changed.
func repeatable(opts client.CreateOptions) client.CreateOptions {
	switch {
	case opts.IdempotencyKey != "":
	case opts.Plan != "":
		opts.IdempotencyKey = uuid.NewString()
	default:
		opts.Repeatable = true
	}
	return opts
}

// mayBeThere says whether a creation was refused since something has the name
// already, here and not on a cluster (a vote that says so has a phase), or since the
// definition is not valid for something new: what is there may stay on a cluster that
// is cordoned.
func mayBeThere(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Problem.Phase == "" && (e.Problem.Code == v1.CodeAlreadyExists || e.Problem.Code == v1.CodeInvalid)
}

// over says whether a federation is the result of a creation that failed, or is
// being deleted: it cannot be changed.
func over(phase string) bool {
	return phase == v1.PhaseAborted || phase == v1.PhaseRolledBack || phase == v1.PhaseRollingBack || phase == v1.PhaseDeleting
}

// change replaces the definition of a service that is there already. When it is
// not that service which has the name, refused is the answer.
func (c *applyCmd) change(ctx context.Context, a *command.App, api *client.Client, s *oscar.Service, refused error) error {
	before, err := api.Replicas(ctx, s.Name, s.ClusterID)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Problem.Code == v1.CodeNotFound {
		return refused
	}
	if err != nil {
		return err
	}
	if over(before.Phase) {
		return refused
	}
	if c.Deployment != "" {
		a.Sayf("%s keeps its deployment %s: it is chosen by the creation", s.Name, before.Deployment)
	}
	return c.waiting.run(ctx, a, api, changeOf{
		service: s.Name, cluster: s.ClusterID, generation: before.Generation,
		send: func(opts client.ChangeOptions) (*v1.Replicas, error) { return api.ChangeService(ctx, s, opts) },
	})
}

// explain adds to an unknown outcome how to ask for the same one again.
func (c *applyCmd) explain(a *command.App, err error, opts client.CreateOptions) error {
	if exit.StatusOf(err) == exit.InProgress && c.Plan == "" {
		again := []string{"oscarfed apply -f", c.File}
		for _, flag := range [][2]string{
			{"cluster", c.Cluster}, {"deployment", c.Deployment}, {"refresh-token-file", c.RefreshTokenFile}, {"idempotency-key", opts.IdempotencyKey},
		} {
			if flag[1] != "" {
				again = append(again, "--"+flag[0], flag[1])
			}
		}
		a.Sayf("the same again waits for the same outcome: %s", strings.Join(again, " "))
	}
	return err
}

// federationOf finds the whole federation of a service.
func federationOf(ctx context.Context, api *client.Client, service, cluster string) (*v1.Federation, error) {
	view, err := api.Replicas(ctx, service, cluster)
	if err != nil {
		return nil, err
	}
	f, err := api.Federation(ctx, view.UID)
	if err != nil {
		return nil, fmt.Errorf("federation %s: %w", view.GroupID, err)
	}
	return f, nil
}

// deployed are the replicas that a federation puts on clusters; members of type
// endpoint are only called.
func deployed(f *v1.Federation) []v1.Replica {
	var list []v1.Replica
	for _, r := range f.Replicas {
		if r.Status != nil {
			list = append(list, r)
		}
	}
	return list
}

func ready(f *v1.Federation) int {
	n := 0
	for _, r := range deployed(f) {
		if r.Status.Phase == v1.PhaseReady {
			n++
		}
	}
	return n
}

package services

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/cli/plans"
)

type planCmd struct {
	tokenOf

	Strict     bool
	File       string
	Cluster    string
	Deployment string
	Out        string
	Ask        bool
}

// Plan is `oscarfed plan`.
func Plan(a *command.App) *cobra.Command {
	var c planCmd
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what apply would write, and write nothing",
		Long: "Show what apply would write to which cluster, and why. Writes nothing; ends with 0 whether\n" +
			"something would change or not. With --ask the clusters are asked what they would vote now:\n" +
			"it ends with 6 when one says no, and with 7 when one does not answer. They promise nothing.",
		Example: "  oscarfed plan -f service.yaml\n" +
			"  oscarfed plan --ask -f service.yaml\n" +
			"  oscarfed plan -f service.yaml --out service.plan",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), a) },
	}
	f := command.FlagsOf(cmd)
	f.BoolVar(&c.Strict, "strict", false, "Refuse a definition with keys that nothing knows, instead of a warning.")
	f.File(&c.File, "The FDL; - reads it from standard input.")
	f.Text(&c.Cluster, "cluster", "", "", "ID", "Cluster of the coordinator, when the FDL names none.")
	f.Text(&c.Deployment, "deployment", "", "", "WORD", "As of apply: transactional or best-effort. Overrides the FDL of a creation.")
	c.tokenOf.flag(f)
	f.BoolVar(&c.Ask, "ask", false, "Ask the clusters what they would vote.")
	f.Text(&c.Out, "out", "", "", "FILE", "Write the plan to a file that apply --plan takes. It holds the definitions with their scripts and secrets, readable by you alone.")
	f.Required("file")
	command.WithoutForms(cmd, output.FormName)
	return cmd
}

// Run asks about every service, shows what can be planned, and ends with the first
// refusal: a file of a plan holds all services of the FDL or is not written.
func (c *planCmd) Run(ctx context.Context, a *command.App) error {
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
	api, err := a.Dial()
	if err != nil {
		return err
	}
	file := plans.New(v1.Time{Time: a.Now()})
	made := []*v1.Plan{}
	var refused error
	for _, s := range services {
		plan, err := api.Plan(ctx, s.Service, client.PlanOptions{Deployment: c.Deployment, Ask: c.Ask})
		if err != nil {
			if _, answered := errors.AsType[*client.Error](err); !answered {
				return err
			}
			if refused != nil || len(services) > 1 {
				a.Sayf("%s: refused", s.Name)
			}
			if refused == nil {
				refused = err
			} else {
				output.Failure(a.Stderr, a.Form, err)
			}
			continue
		}
		made = append(made, plan)
		if plan.Action == v1.PlanCreate {
			sayEmptySecrets(a, s.Service)
		}
		if err := file.Add(s.Service, c.Deployment, plan); err != nil {
			return err
		}
	}
	if err := printPlans(a, made); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	for _, place := range placedTwice(made) {
		a.Sayf("%s is in two services of the FDL: the second will be refused when the first is written", place)
	}
	a.Sayf("%s; nothing is written", planSummary(made))
	if c.Out == "" {
		return againstIt(made)
	}
	if err := file.Write(c.Out); err != nil {
		return err
	}
	if secrets := file.Secrets(); secrets != "" {
		a.Sayf("%s holds secrets (%s): it is readable by you alone; keep it as you keep the FDL", c.Out, secrets)
	}
	a.Sayf("exactly this: oscarfed apply --plan %s", c.Out)
	return againstIt(made)
}

// againstIt is an error where a cluster that was asked votes no, or has not answered: what is
// transactional would be refused.
func againstIt(made []*v1.Plan) error {
	n := map[string]int{}
	for _, p := range made {
		for _, r := range p.Replicas {
			if r.Vote != nil {
				n[r.Vote.Answer]++
			}
		}
	}
	switch {
	case n[v1.VoteNo] > 0:
		return exit.Errorf(exit.Conflict, "%s would vote no", output.Count(n[v1.VoteNo], "cluster"))
	case n[v1.VoteUnknown] > 0:
		return exit.Errorf(exit.NotReachable, "the vote of %s is not known", output.Count(n[v1.VoteUnknown], "cluster"))
	}
	return nil
}

// warnOf names the keys that nothing knows, an error when strict, and the scripts that will not run.
func warnOf(a *command.App, services []fdl.Service, strict bool) error {
	unknown := fdl.UnknownKeys(services)
	if strict && len(unknown) > 0 {
		return fdl.Invalid(unknown)
	}
	for _, v := range unknown {
		a.Sayf("warning: %s", v.Error())
	}
	for _, warning := range fdl.WindowsScripts(services) {
		a.Sayf("warning: %s", warning)
	}
	return nil
}

// readServices reads an FDL and puts services without a cluster on the given one.
func readServices(path, cluster string, stdin io.Reader) ([]fdl.Service, error) {
	services, err := fdl.Read(path, stdin)
	if err != nil {
		return nil, err
	}
	for _, s := range services {
		if cluster == "" {
			continue
		}
		if s.ClusterID != "" && s.ClusterID != cluster {
			return nil, exit.Usagef("--cluster %s, but the FDL puts %s on %s; leave one of them out", cluster, s.Name, s.ClusterID)
		}
		s.ClusterID = cluster
	}
	return services, nil
}

// placedTwice are the places that two plans want. Each plan is of one service and
// knows nothing of the others.
func placedTwice(plans []*v1.Plan) (places []string) {
	wanted := map[string]int{}
	for _, p := range plans {
		for _, r := range p.Replicas {
			name := r.ClusterID + "/" + r.ServiceName
			if wanted[name]++; wanted[name] == 2 {
				places = append(places, name)
			}
		}
	}
	return places
}

// planSummary counts the services on the clusters: a line of the tables each.
func planSummary(plans []*v1.Plan) string {
	n := map[string]int{}
	for _, p := range plans {
		for _, r := range p.Replicas {
			n[r.Action]++
		}
	}
	text := fmt.Sprintf("%s to create, %d to change", output.Count(n["create"], "service"), n["update"])
	if n["remove"] > 0 {
		text += fmt.Sprintf(", %d to remove", n["remove"])
	}
	return text + fmt.Sprintf(", %d unchanged", n["none"])
}

// printPlans writes plans one after another, or as one array.
func printPlans(a *command.App, list []*v1.Plan) error {
	if a.Form != output.FormTable {
		return a.Encode(list)
	}
	for i, p := range list {
		if i > 0 {
			fmt.Fprintln(a.Stdout)
		}
		if err := plans.Show(a.Stdout, p); err != nil {
			return err
		}
	}
	return nil
}

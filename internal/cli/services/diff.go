package services

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/fdl"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// maxDiffLines of a script: beyond it, comparing line by line takes too long.
const maxDiffLines = 20_000

type diffCmd struct {
	ExitCode bool
	Service  string
	Cluster  string
	From     int64
	To       int64
	File     string
}

// Diff is `oscarfed diff`.
func Diff(a *command.App) *cobra.Command {
	var c diffCmd
	cmd := &cobra.Command{
		Use:   "diff SERVICE",
		Short: "Compare two generations of a service, or it and an FDL",
		Long: "Show what differs between two generations of a service, or between it and an FDL, and which\n" +
			"clusters differ from it now. Ends with 0 whether something differs or not; with --exit-code by 1 when\n" +
			"something differs.",
		Example: "  oscarfed diff grayify\n" +
			"  oscarfed diff grayify --from 1 --to 3\n" +
			"  oscarfed diff grayify -f service.yaml --exit-code",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.BoolVar(&c.ExitCode, "exit-code", false, "End with 1 when something differs.")
	f.ClusterOf(&c.Cluster)
	f.Generation(&c.From, "from", "N", "Older generation; the one before --to when not given, with -f the present one.")
	f.Generation(&c.To, "to", "N", "Newer generation; the present one when not given.")
	f.File(&c.File, "Compare with the service of this name in an FDL; - reads it from standard input.")
	return cmd
}

// difference is what diff shows, for the forms that programs read.
type difference struct {
	Service string `json:"service"`
	// From and To are "generation N" or the name of a file.
	From string `json:"from"`
	To   string `json:"to"`
	// Fields that differ, and the same as a unified text. Secrets are in neither.
	Fields []v1.PlanField `json:"fields"`
	Text   string         `json:"text"`
	// Clusters that do not show the present generation.
	Clusters []v1.Replica `json:"clusters"`
}

// side is one of the two definitions that are compared.
type side struct {
	name    string
	service *oscar.Service
}

func (c *diffCmd) Run(ctx context.Context, a *command.App) error {
	switch {
	case c.File != "" && c.To != 0:
		return exit.Usagef("give --to or -f: the newer one is a generation or a file")
	case c.From < 0 || c.To < 0:
		return exit.Usagef("generations are numbers from 1; history lists those that are kept")
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	history, err := api.History(ctx, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	before, after, err := c.sides(a, history)
	if err != nil {
		return err
	}
	f, err := federationOf(ctx, api, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	out := difference{Service: c.Service, From: before.name, To: after.name, Fields: []v1.PlanField{}, Clusters: ofFailed(f.Phase, behind(f))}
	for _, d := range oscar.Differences(before.service, after.service) {
		out.Fields = append(out.Fields, v1.PlanField{Path: d.Path, Before: d.Before, After: d.After})
	}
	if out.Text, err = unified(before, after); err != nil {
		return err
	}
	show := func() error { return out.show(a) }
	if a.Form != output.FormTable {
		show = func() error { return output.Encode(a.Stdout, a.Form, out) }
	}
	if err := show(); err != nil {
		return err
	}
	if c.ExitCode && (len(out.Fields) > 0 || len(out.Clusters) > 0) {
		return exit.Errorf(exit.Failed, "%s: something differs", c.Service)
	}
	return nil
}

// show writes the text, and a table of the clusters that differ.
func (d difference) show(a *command.App) error {
	for line := range strings.Lines(d.Text) {
		fmt.Fprintln(a.Stdout, printableText(strings.TrimSuffix(line, "\n")))
	}
	if d.Text == "" {
		a.Sayf("%s: %s and %s are the same; secrets are not compared", d.Service, d.From, d.To)
	}
	if len(d.Clusters) == 0 {
		return nil
	}
	if d.Text != "" {
		fmt.Fprintln(a.Stdout)
	}
	a.Sayf("these clusters do not show the present generation:")
	return a.PrintTable(replicaTable(d.Clusters))
}

// sides finds what is to be compared.
func (c *diffCmd) sides(a *command.App, history []v1.Generation) (before, after side, err error) {
	if len(history) == 0 {
		return before, after, exit.Errorf(exit.NotFound, "no generation of %s is kept", c.Service)
	}
	present := history[0].Generation
	to, from := c.To, c.From
	if to == 0 {
		to = present
	}
	if c.File != "" {
		if from == 0 {
			from = present
		}
		if before, err = generation(c.Service, history, from); err != nil {
			return before, after, err
		}
		after, err = c.fromFile(a, before.service)
		return side{before.name, before.service.WithDefaults()}, after, err
	}
	if from == 0 {
		from = max(to-1, history[len(history)-1].Generation)
	}
	if before, err = generation(c.Service, history, from); err == nil {
		after, err = generation(c.Service, history, to)
	}
	return before, after, err
}

func generation(service string, history []v1.Generation, n int64) (side, error) {
	i := slices.IndexFunc(history, func(g v1.Generation) bool { return g.Generation == n })
	if i < 0 {
		return side{}, exit.Errorf(exit.NotFound, "generation %d of %s is not kept; history lists those that are", n, service)
	}
	s, violations := oscar.ParseService(history[i].Service)
	if len(violations) > 0 {
		return side{}, fmt.Errorf("generation %d of %s cannot be read: %s: %s", n, service, violations[0].Path, violations[0].Message)
	}
	return side{"generation " + strconv.FormatInt(n, 10), s}, nil
}

// fromFile is the service in an FDL as it would be submitted over old, without
// its secrets.
func (c *diffCmd) fromFile(a *command.App, old *oscar.Service) (side, error) {
	services, err := fdl.Read(c.File, a.Stdin)
	if err != nil {
		return side{}, err
	}
	i := slices.IndexFunc(services, func(s fdl.Service) bool { return s.Name == old.Name })
	if i < 0 {
		return side{}, exit.Errorf(exit.NotFound, "%s has no service %s", c.File, old.Name)
	}
	services[i].KeepAbsent(old)
	public, _ := oscar.SplitSecrets(services[i].Service)
	if public.ClusterID == "" {
		public.ClusterID = old.ClusterID
	}
	return side{c.File, public.WithDefaults()}, nil
}

// unified is the difference of two definitions as YAML, and of their scripts.
func unified(before, after side) (string, error) {
	was, oldScript, err := document(before.service)
	if err != nil {
		return "", err
	}
	is, newScript, err := document(after.service)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, part := range []struct{ what, was, is string }{{"", was, is}, {" script", oldScript, newScript}} {
		text, err := lineByLine(before.name+part.what, after.name+part.what, part.was, part.is)
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// document is a definition as YAML with its keys sorted, and its script, which YAML
// would write as one line when it has tabs or blanks at the end of a line.
func document(s *oscar.Service) (text, script string, err error) {
	s = s.Clone()
	script, s.Script = s.Script, ""
	data, err := json.Marshal(s)
	if err != nil {
		return "", "", err
	}
	out, err := yaml.JSONToYAML(data)
	return string(out), script, err
}

func lineByLine(from, to, was, is string) (string, error) {
	if was == is {
		return "", nil
	}
	if max(strings.Count(was, "\n"), strings.Count(is, "\n")) > maxDiffLines {
		return fmt.Sprintf("--- %s\n+++ %s\n(they differ, and are too long to be compared line by line)\n", from, to), nil
	}
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: linesOf(was), B: linesOf(is), FromFile: from, ToFile: to, Context: 3,
	})
}

// linesOf are the lines of a text, each with its end; a last one that has none says so.
func linesOf(text string) []string {
	lines := slices.Collect(strings.Lines(text))
	if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") {
		lines[n-1] += "\n\\ No newline at end of file\n"
	}
	return lines
}

// printableText is printable for a line whose tabs mean something.
func printableText(line string) string {
	parts := strings.Split(line, "\t")
	for i := range parts {
		parts[i] = output.Printable(parts[i])
	}
	return strings.Join(parts, "\t")
}

// behind are the replicas whose clusters do not show the present generation.
func behind(f *v1.Federation) []v1.Replica {
	out := []v1.Replica{}
	for _, r := range deployed(f) {
		if r.Status.Phase != v1.PhaseReady || r.Status.ObservedGeneration < f.Generation {
			out = append(out, r)
		}
	}
	return out
}

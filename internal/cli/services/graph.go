package services

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type graphCmd struct {
	Service string
	Cluster string
}

// Graph is `oscarfed graph`.
func Graph(a *command.App) *cobra.Command {
	var c graphCmd
	cmd := &cobra.Command{
		Use:   "graph SERVICE",
		Short: "Draw a service's federation",
		Long: "Draw a service's federation: its members, and who lists whom; with -o as mermaid, dot or svg for other\n" +
			"programs.",
		Example: "  oscarfed graph grayify\n" +
			"  oscarfed graph grayify -o svg > grayify.svg",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Service = args[0]
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.ClusterOf(&c.Cluster)
	command.AlsoForms(cmd, output.FormMermaid, output.FormDot, output.FormSVG)
	return cmd
}

func (c *graphCmd) Run(ctx context.Context, a *command.App) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	f, err := federationOf(ctx, api, c.Service, c.Cluster)
	if err != nil {
		return err
	}
	switch a.Form {
	case output.FormMermaid:
		_, err = a.Stdout.Write([]byte(mermaid(f)))
	case output.FormDot:
		_, err = a.Stdout.Write([]byte(dot(f)))
	case output.FormSVG:
		_, err = a.Stdout.Write([]byte(svg(f)))
	case output.FormTable:
		return graph(f).Write(a.Stdout, a.Unbounded().Style())
	default:
		return output.Encode(a.Stdout, a.Form, f)
	}
	return err
}

// memberText is what is written into the node of a member, in lines.
func memberText(r v1.Replica) []string {
	if r.Status == nil {
		return []string{r.URL}
	}
	return []string{r.ClusterID + "/" + r.ServiceName, r.Status.Phase}
}

// nodesOf numbers the members, by the addresses that edges name.
func nodesOf(f *v1.Federation) map[string]int {
	out := map[string]int{}
	for i, r := range f.Replicas {
		out[address(r)] = i
	}
	return out
}

func isCoordinator(f *v1.Federation, r v1.Replica) bool {
	return r.URL == "" && r.ClusterID == f.Coordinator.ClusterID && r.ServiceName == f.Coordinator.ServiceName
}

// dot is the graph in Graphviz's language. Names are quoted, so that none of them is taken for
// anything else.
func dot(f *v1.Federation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  node [shape=box];\n", strconv.Quote(f.GroupID))
	nodes := nodesOf(f)
	for i, r := range f.Replicas {
		shape := ""
		if isCoordinator(f, r) {
			shape = ", peripheries=2"
		}
		fmt.Fprintf(&b, "  m%d [label=%s%s];\n", i, strconv.Quote(strings.Join(memberText(r), "\n")), shape)
	}
	for _, e := range f.Edges {
		fmt.Fprintf(&b, "  m%d -> m%d;\n", nodes[e[0]], nodes[e[1]])
	}
	return b.String() + "}\n"
}

// mermaid is the graph in Mermaid's language, in which quotes and brackets are written as entities.
func mermaid(f *v1.Federation) string {
	escape := strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;", "\n", " ", "\r", " ")
	var b strings.Builder
	b.WriteString("graph LR\n")
	nodes := nodesOf(f)
	for i, r := range f.Replicas {
		lines := memberText(r)
		for j := range lines {
			lines[j] = escape.Replace(lines[j])
		}
		left, right := "[", "]"
		if isCoordinator(f, r) {
			left, right = "([", "])"
		}
		fmt.Fprintf(&b, "  m%d%s\"%s\"%s\n", i, left, strings.Join(lines, "<br/>"), right)
	}
	for _, e := range f.Edges {
		fmt.Fprintf(&b, "  m%d --> m%d\n", nodes[e[0]], nodes[e[1]])
	}
	return b.String()
}

// maxListed is how many members of an irregular graph one line names: 120 replicas that
// list each other are 14,280 names. The other forms of the output have all of them.
const maxListed = 4

// graph says which replica lists which members: in one line for a mesh, a star, and a federation
// whose replicas list no members, and else in one line for each replica.
func graph(f *v1.Federation) *output.Table {
	t := &output.Table{}
	lists := map[string][]string{}
	for _, e := range f.Edges {
		lists[e[0]] = append(lists[e[0]], e[1])
	}
	coordinator := f.Coordinator.ClusterID + "/" + f.Coordinator.ServiceName
	var replicas, members []string
	for _, r := range f.Replicas {
		members = append(members, address(r))
		if r.URL == "" {
			replicas = append(replicas, address(r))
		}
	}
	others := len(members) - 1
	listsAll := func(replica string) bool { return listsEveryOther(replica, lists[replica], members) }
	switch {
	case others < 1:
	case len(f.Edges) == 0:
		t.Row("none", fmt.Sprintf("%s, and each lists nobody", output.Count(len(replicas), "replica")))
	case len(replicas) > 1 && !slices.ContainsFunc(replicas, func(r string) bool { return !listsAll(r) }):
		t.Row("mesh", fmt.Sprintf("%s, and each lists %s; coordinator %s",
			output.Count(len(replicas), "replica"), everyOther(others), coordinator))
	case len(lists) == 1 && listsAll(coordinator):
		t.Row("star", fmt.Sprintf("%s alone lists %s", coordinator, everyOther(others)))
	default:
		for _, r := range replicas {
			mark := ""
			if r == coordinator {
				mark = "(coordinator)"
			}
			t.Row(r, "->", listed(lists[r]), mark)
		}
	}
	return t
}

// listsEveryOther says whether a replica that lists these lists all members but itself.
func listsEveryOther(replica string, listed, members []string) bool {
	if len(listed) != len(members)-1 {
		return false
	}
	for _, member := range members {
		if member != replica && !slices.Contains(listed, member) {
			return false
		}
	}
	return true
}

func everyOther(n int) string {
	if n == 1 {
		return "the other member"
	}
	return fmt.Sprintf("the %d other members", n)
}

// listed names the first members of a list, and says how many there are besides.
func listed(members []string) string {
	if len(members) == 0 {
		return "nobody"
	}
	shown := members[:min(len(members), maxListed)]
	words := strings.Join(shown, ", ")
	if more := len(members) - len(shown); more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return words
}

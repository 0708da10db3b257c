package cli

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

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
		t.Row("none", fmt.Sprintf("%s, and each lists nobody", count(len(replicas), "replica")))
	case len(replicas) > 1 && !slices.ContainsFunc(replicas, func(r string) bool { return !listsAll(r) }):
		t.Row("mesh", fmt.Sprintf("%s, and each lists %s; coordinator %s",
			count(len(replicas), "replica"), everyOther(others), coordinator))
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

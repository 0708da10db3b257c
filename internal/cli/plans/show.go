package plans

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// maxEdges is how many pairs of the topology are shown one by one: a mesh of 120 has 14,280. The
// other forms of the output have all of them.
const maxEdges = 20

// Show writes what a plan does: the definition, each cluster, which member lists which, and
// what may be in the way.
func Show(w io.Writer, p *v1.Plan) error {
	say := func(indent int, format string, args ...any) {
		fmt.Fprintln(w, strings.Repeat(" ", indent)+output.Printable(fmt.Sprintf(format, args...)))
	}
	say(0, "%s: %s", p.Coordinator.ServiceName, headline(p))
	if p.Action == v1.PlanChange {
		for _, line := range fieldLines(p.Fields, p.Secrets) {
			say(2, "%s", line)
		}
	}
	t := output.NewTable("CLUSTER", "SERVICE", "ACTION", "VOTES", "QUEUE", "WHY")
	for _, r := range p.Replicas {
		t.Row(r.ClusterID, r.ServiceName, r.Action, voteText(r), strconv.FormatInt(delay(r), 10)+"s", strings.Join(r.Reasons, "; "))
	}
	if err := t.Write(w, output.Style{}); err != nil {
		return err
	}
	for _, r := range p.Replicas {
		// What is the same on all clusters stands above already.
		if own := ownLines(r, p); len(own) > 0 {
			say(0, "%s/%s", r.ClusterID, r.ServiceName)
			for _, line := range own {
				say(2, "%s", line)
			}
		}
	}
	showEdges(say, p.Topology)
	if wait := longest(p.Replicas); wait > 0 {
		say(0, "expected delay: %ds, the longest write queue of these clusters", wait)
	}
	for _, r := range p.Replicas {
		if r.Vote != nil && r.Vote.Answer != v1.VoteYes {
			say(0, "%s", voteLine(r))
		}
	}
	for _, warning := range p.Warnings {
		say(0, "warning: %s", warningLine(warning))
	}
	return nil
}

// voteText says what became of a cluster's vote. "-" is for one that has none.
func voteText(r v1.PlanReplica) string {
	switch {
	case !r.Votes:
		return "-"
	case r.Vote == nil:
		return "not asked"
	}
	return r.Vote.Answer
}

// delay is how many seconds the cluster's earlier writes take.
func delay(r v1.PlanReplica) int64 {
	if r.Vote != nil && r.Vote.Answer == v1.VoteYes {
		return r.Vote.DelayS
	}
	return r.DelayS
}

// voteLine says why a cluster would not vote yes.
func voteLine(r v1.PlanReplica) string {
	line := fmt.Sprintf("%s/%s would vote no", r.ClusterID, r.ServiceName)
	if r.Vote.Answer != v1.VoteNo {
		line = fmt.Sprintf("%s/%s: its vote is not known", r.ClusterID, r.ServiceName)
	}
	if r.Vote.Reason != "" {
		line += ": " + r.Vote.Reason
	}
	return line + ": " + r.Vote.Message
}

func headline(p *v1.Plan) string {
	switch p.Action {
	case v1.PlanCreate:
		return fmt.Sprintf("create federation %s, %s over %s, %s", p.GroupID, p.Topology.After, output.Count(len(p.Replicas), "cluster"), p.Deployment)
	case v1.PlanChange:
		return fmt.Sprintf("change generation %d to %d, bound to revision %d", p.Generation, p.NextGeneration, p.Revision)
	}
	return fmt.Sprintf("nothing to do, generation %d is the same", p.Generation)
}

func showEdges(say func(indent int, format string, args ...any), t v1.PlanTopology) {
	if len(t.EdgesAdded)+len(t.EdgesRemoved) == 0 {
		return
	}
	if t.Before != "" && t.Before != t.After {
		say(0, "topology %s becomes %s", t.Before, t.After)
	}
	for _, part := range []struct {
		sign, words string
		edges       [][2]string
	}{{"+", "more", t.EdgesAdded}, {"-", "more", t.EdgesRemoved}} {
		for i, e := range part.edges {
			if i == maxEdges {
				say(2, "%s %d %s; -o json has them all", part.sign, len(part.edges)-maxEdges, part.words)
				break
			}
			say(2, "%s %s lists %s", part.sign, e[0], e[1])
		}
	}
}

// ownLines are the differences of one replica that are not those of the definition.
func ownLines(r v1.PlanReplica, p *v1.Plan) []string {
	known := map[string]bool{}
	for _, line := range fieldLines(p.Fields, p.Secrets) {
		known[line] = true
	}
	var out []string
	for _, line := range fieldLines(r.Fields, r.Secrets) {
		if !known[line] {
			out = append(out, line)
		}
	}
	return out
}

func fieldLines(fields []v1.PlanField, secrets []v1.PlanSecret) []string {
	lines := make([]string, 0, len(fields)+len(secrets))
	for _, f := range fields {
		switch {
		case f.Before == nil && f.After == nil:
			lines = append(lines, f.Path+" more fields differ")
		case f.Before == nil:
			lines = append(lines, "+ "+f.Path+": "+valueText(f.After))
		case f.After == nil:
			lines = append(lines, "- "+f.Path+": "+valueText(f.Before))
		default:
			lines = append(lines, "~ "+f.Path+": "+valueText(f.Before)+" -> "+valueText(f.After))
		}
	}
	for _, s := range secrets {
		if s.Change != "unchanged" {
			lines = append(lines, "~ "+s.Path+": secret, "+s.Change)
		}
	}
	return lines
}

// valueText is a value as JSON, a long one by its size.
func valueText(v json.RawMessage) string {
	var long struct {
		Bytes  int    `json:"bytes"`
		Lines  int    `json:"lines"`
		SHA256 string `json:"sha256"`
	}
	if json.Unmarshal(v, &long) == nil && len(long.SHA256) == 64 {
		return fmt.Sprintf("%s (%d bytes, sha256 %s)", output.Count(long.Lines, "line"), long.Bytes, long.SHA256[:8])
	}
	return string(v)
}

func warningLine(warning v1.PlanWarning) string {
	line := warning.Message
	if warning.Reason != "" {
		line = warning.Reason + ": " + line
	}
	if warning.ClusterID != "" {
		line = warning.ClusterID + "/" + warning.ServiceName + ": " + line
	}
	return line
}

func longest(replicas []v1.PlanReplica) (wait int64) {
	for _, r := range replicas {
		if r.Votes {
			wait = max(wait, delay(r))
		}
	}
	return wait
}

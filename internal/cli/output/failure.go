package output

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Failure tells why a command failed: for an answer of the API everything
// that it says, in lines or, for JSON and YAML, as the problem itself.
func Failure(w io.Writer, f Form, err error) {
	answer, ok := errors.AsType[*client.Error](err)
	if !ok {
		fmt.Fprintln(w, "oscarfed: "+printableLines(err.Error()))
		return
	}
	if f == formJSON || f == FormYAML { // a template is of the result, and finds nothing in a problem
		if Encode(w, f, answer.Problem) == nil {
			return
		}
	}
	for _, line := range ProblemLines(answer.Problem) {
		fmt.Fprintln(w, Printable(line))
	}
	if answer.RetryAfter > 0 {
		fmt.Fprintf(w, "  try again in %s\n", answer.RetryAfter)
	}
}

// ProblemLines is a problem as text: the cause first, then a line for each
// violation, replica or candidate, then what helps to look further.
func ProblemLines(p v1.Problem) []string {
	head := "oscarfed: " + p.Title
	switch {
	case p.Detail == "" || p.Detail == p.Title:
	case p.Code == v1.CodeNotFound && p.RequestID != "": // the title says it again
		head = "oscarfed: " + p.Detail
	default:
		head += ": " + p.Detail
	}
	lines := []string{head}
	for _, v := range p.Violations {
		lines = append(lines, "  "+violationLine(v))
	}
	lines = append(lines, FailedLines(p.Replicas)...)
	if p.Rollback != "" {
		lines = append(lines, "  rollback "+Words(p.Rollback))
	}
	if len(p.Clusters) > 1 { // of a member that is changed in place of its coordinator it is the coordinator's
		lines = append(lines, "  it could be on: "+strings.Join(p.Clusters, ", ")+"; choose with --cluster")
	}
	if hint := problemHint(p); hint != "" {
		lines = append(lines, "  "+hint)
	}
	if p.RequestID != "" && p.Code != v1.CodeInvalid {
		lines = append(lines, "  request "+p.RequestID)
	}
	return lines
}

// outcomeHint names the command that shows what an API path does.
func outcomeHint(path string) string {
	for _, known := range [][2]string{
		{"/system/replicas/", "oscarfed describe "}, {"/system/services/", "oscarfed describe "}, {"/system/jobs/", "oscarfed job get "},
	} {
		if name, ok := strings.CutPrefix(path, known[0]); ok && name != "" && !strings.Contains(name, "/") {
			return known[1] + name + " shows where it stands"
		}
	}
	switch {
	case strings.HasPrefix(path, "/job/"):
		return "oscarfed get jobs shows whether it is there"
	case path == "/system/services":
		return "oscarfed get federations shows where it stands"
	}
	return ""
}

// refreshToken is what a user's federation is refused without, in OSCAR's words.
const refreshToken = "environment.secrets.refresh_token"

func violationLine(v v1.Violation) string {
	if v.Path == "" {
		return v.Message
	}
	return v.Path + ": " + v.Message
}

// FailedLines are the replicas of a failed creation: what each did, and what
// became of it.
func FailedLines(replicas []v1.FailedReplica) []string {
	lines := make([]string, 0, len(replicas))
	for _, r := range replicas {
		line := "  " + r.ClusterID + "/" + r.ServiceName + ": "
		if r.Cause != nil {
			line += causeText(*r.Cause) + "; "
		}
		line += Words(r.Rollback.State)
		if r.Rollback.Message != "" {
			line += " (" + r.Rollback.Message + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

func causeText(c v1.Cause) string {
	text := c.Reason
	if c.Status != 0 {
		text += fmt.Sprintf(": %s answered %d", c.Operation, c.Status)
	}
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}

func problemHint(p v1.Problem) string {
	switch {
	case p.Code == v1.CodeUnknownOutcome:
		return outcomeHint(p.Instance)
	case slices.ContainsFunc(p.Violations, func(v v1.Violation) bool { return v.Path == refreshToken && v.Rule == "required" }):
		return "oscarfed token new logs you in for one, and apply --refresh-token-file takes it; " +
			"without one, say topology: none, and no job moves between clusters"
	}
	return ""
}

// Words is a word of the contract as prose.
func Words(s string) string { return strings.ReplaceAll(s, "_", " ") }

// printableLines keeps the line breaks of our own messages.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Printable(line)
	}
	return strings.Join(lines, "\n")
}

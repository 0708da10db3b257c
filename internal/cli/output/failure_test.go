package output

import (
	"slices"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// "oscarfed describe shows where it stands" named a command that, without a service, shows something else.
func TestAnUnknownOutcomeNamesTheCommandThatShowsIt(t *testing.T) {
	for path, want := range map[string]string{
		"/system/replicas/grayifyr0": "  oscarfed describe grayifyr0 shows where it stands",
		"/system/services/grayifyr0": "  oscarfed describe grayifyr0 shows where it stands",
		"/system/services":           "  oscarfed get federations shows where it stands",
		"/system/jobs/01a2":          "  oscarfed job get 01a2 shows where it stands",
		"/job/grayifyr0":             "  oscarfed get jobs shows whether it is there",
	} {
		lines := ProblemLines(v1.Problem{Code: v1.CodeUnknownOutcome, Title: "The outcome is not known yet", Instance: path})
		if !slices.Contains(lines, want) {
			t.Errorf("%s: %q", path, lines)
		}
	}
	if lines := ProblemLines(v1.Problem{Code: v1.CodeUnknownOutcome, Title: "t", Instance: "/system/clusters/a"}); len(lines) != 1 {
		t.Errorf("of what nothing shows: %q", lines)
	}
}

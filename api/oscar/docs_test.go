package oscar

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/fdl.md names every rule and every limit as the code has them.
func TestTheDocumentationNamesRulesAndLimits(t *testing.T) {
	data, err := os.ReadFile("../../docs/fdl.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, rule := range []string{RuleRequired, RuleOneOf, RuleUnique, RuleNoSelf, RuleKnownCluster, RuleAllowedCluster, RuleName, RuleQuantity,
		RuleMaxLength, RuleMaxBytes, RuleMaxMembers, RuleType, RuleDefinedProvider, RuleSharedBucket} {
		if !strings.Contains(page, "\n- `"+rule+"`: ") {
			t.Errorf("rule %s is not in the list", rule)
		}
	}
	for what, want := range map[string]string{
		"a service, an FDL":            fmt.Sprintf("%d MiB", MaxServiceBytes>>20),
		"the script":                   fmt.Sprintf("%d KiB", MaxScriptBytes>>10),
		"annotations, keys and values": fmt.Sprintf("%d KiB", MaxAnnotationsBytes>>10),
		"nesting":                      fmt.Sprintf("%d levels", MaxDepth),
		"replicas of a federation, the coordinator included": fmt.Sprint(MaxReplicas),
		"services of one request, all or none":               fmt.Sprintf("%d, with %d replicas together", MaxBatch, MaxReplicas),
		"members of type `endpoint`":                         fmt.Sprint(MaxEndpoints),
		"inputs, and outputs, of a service":                  fmt.Sprint(MaxIO),
		"allowed users":                                      fmt.Sprintf("%d, each of %d bytes, %d KiB together", MaxAllowedUsers, MaxUserBytes, MaxAllowedUsersBytes>>10),
		"buckets that `isolation_level: USER` makes":         fmt.Sprint(MaxPrivateBuckets),
		"an environment variable; all of them":               fmt.Sprintf("%d KiB; %d KiB", maxValueBytes>>10, bounds["environment.variables"].bytes>>10),
		"any other text; a list or map":                      fmt.Sprintf("%d KiB, tokens %d KiB; %d entries and %d KiB", maxTextBytes>>10, maxTokenBytes>>10, maxEntries, maxListBytes>>10),
		"a service's name":                                   fmt.Sprintf("%d to %d characters", MinNameLength, MaxNameLength),
		"`cluster_id`, `group_id`":                           fmt.Sprintf("%d characters", MaxIDLength),
		"a url":                                              fmt.Sprintf("%d characters", MaxURLLength),
		"values in one file or body, aliases expanded":       fmt.Sprintf("%d,%03d", maxValues/1000, maxValues%1000),
	} {
		if line := "- " + what + ": " + want + "\n"; !strings.Contains(page, line) {
			t.Errorf("docs/fdl.md lacks %q", line)
		}
	}
	// Messages of the list are those of the code.
	flat := strings.Join(strings.Fields(page), " ")
	for patch, message := range map[string]string{
		`{"federation":{"topology":"ring"}}`: `topology "ring" is unknown`,
		`{"image":null}`:                     "image is missing",
		`{"name":"Bad_Name"}`:                `name "Bad_Name" is refused by Kubernetes`,
		`{"cpu":"lots"}`:                     `cpu "lots" is not a quantity`,
		`{"output":[{"storage_provider":"minio.shared","path":"abc/d"}]}`: `storage provider "minio.shared" is not defined`,
		`{"script":"` + strings.Repeat("x", MaxScriptBytes+1) + `"}`:      "the script has 524289 bytes",
		members(manyMembers(120)...):                                      "the federation has 121 replicas",
	} {
		vs := Validate(with(t, patch))
		if len(vs) != 1 || !strings.HasPrefix(vs[0].Message, message) || !strings.Contains(flat, "`: "+vs[0].Message) {
			t.Errorf("docs/fdl.md lacks the message %v", vs)
		}
	}
}

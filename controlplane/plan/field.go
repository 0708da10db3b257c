package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

const (
	// maxPlannedValue in bytes of JSON: what is longer is told by its size and digest.
	maxPlannedValue = 200
	// maxPlannedFields of one definition or replica: a plan of 120 replicas stays readable.
	maxPlannedFields = 100
)

// compared returns the differences between two forms of a service: the public fields, and of
// each secret only whether it differs. before may be nil.
func compared(before, after *oscar.Service, was, is json.RawMessage) ([]v1.PlanField, []v1.PlanSecret) {
	if before == nil {
		before = &oscar.Service{}
	}
	// Both patches are our own encoding, which is always read.
	differences, _ := oscar.SecretDifferences(was, is)
	fields, secrets := []v1.PlanField{}, []v1.PlanSecret{}
	for _, d := range differences {
		secrets = append(secrets, v1.PlanSecret(d))
	}
	for _, d := range oscar.Differences(before, after) {
		if !ownMark(d.Path) && !slices.ContainsFunc(secrets, func(s v1.PlanSecret) bool { return s.Path == d.Path }) {
			fields = append(fields, v1.PlanField{Path: d.Path, Before: summary(d.Before), After: summary(d.After)})
		}
		if len(fields) == maxPlannedFields {
			fields = append(fields, v1.PlanField{Path: "..."})
			break
		}
	}
	return fields, secrets
}

// ownMark says whether a field is the annotation of the generation, which differs
// in every change.
func ownMark(path string) bool {
	return strings.HasPrefix(path, "annotations") && strings.Contains(path, oscar.AnnotationGeneration)
}

func summary(v json.RawMessage) json.RawMessage {
	if len(v) <= maxPlannedValue {
		return v
	}
	text := []byte(v)
	var s string
	if json.Unmarshal(v, &s) == nil {
		text = []byte(s)
	}
	sum := sha256.Sum256(text)
	lines := bytes.Count(text, []byte("\n"))
	if !bytes.HasSuffix(text, []byte("\n")) {
		lines++
	}
	out, err := json.Marshal(struct {
		Bytes  int    `json:"bytes"`
		Lines  int    `json:"lines"`
		SHA256 string `json:"sha256"`
	}{len(text), lines, hex.EncodeToString(sum[:])})
	if err != nil {
		return nil // two numbers and a word always encode
	}
	return out
}

// topFields names the top-level fields of differences, each once, for a sentence.
func topFields(fields []v1.PlanField, secrets []v1.PlanSecret) []string {
	var out []string
	add := func(path string) {
		if i := strings.IndexAny(path, ".["); i > 0 {
			path = path[:i]
		}
		if !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	for _, f := range fields {
		add(f.Path)
	}
	for _, s := range secrets {
		if s.Change != oscar.SecretUnchanged {
			add(s.Path)
		}
	}
	return out
}

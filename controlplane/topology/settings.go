package topology

import (
	"fmt"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// Settings are those words of a federation that its coordinator's service does not
// show by itself, since it is sent others. They go with it as an annotation, so that
// the federation can be told from it when the store has lost it.
type Settings struct{ Topology, Deployment, Drift string }

// String is the annotation: topology/deployment/drift.
func (s Settings) String() string {
	return strings.Join([]string{s.Topology, s.Deployment, s.Drift}, "/")
}

// ParseSettings reads the annotation. What the words mean is checked with the
// definition that they become part of.
func ParseSettings(annotation string) (Settings, error) {
	words := strings.Split(annotation, "/")
	if len(words) != 3 {
		return Settings{}, fmt.Errorf("annotation %s is %q, and not topology/deployment/drift", oscar.AnnotationSettings, annotation)
	}
	return Settings{Topology: words[0], Deployment: words[1], Drift: words[2]}, nil
}

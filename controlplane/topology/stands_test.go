package topology

import (
	"fmt"
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

// More is wrong in the definition that stands than an answer tells.
func TestWhatIsWrongAlreadyRefusesNoRemoval(t *testing.T) {
	t.Parallel()
	s := &oscar.Service{Name: "s", ClusterID: "a", Image: "i", Script: "x", CPU: "1", Memory: "1Gi", Federation: &oscar.Federation{}}
	for i := range 119 {
		s.Federation.Members = append(s.Federation.Members, oscar.Member{Type: oscar.MemberOSCAR, ClusterID: "a", ServiceName: fmt.Sprintf("No Name %d", i)})
	}
	left := s.Clone()
	left.Federation.Members = left.Federation.Members[1:]
	env := Env{Clusters: map[string]record.ClusterState{"a": record.ClusterActive}, Stands: s}
	if _, violations := FromService(left, env); len(violations) > 0 {
		t.Errorf("%d violations, as %+v", len(violations), violations[0])
	}
	left.Name = "No Name"
	if _, violations := FromService(left, env); len(violations) != 1 || violations[0].Path != "name" {
		t.Errorf("a new violation: %+v", violations)
	}
}

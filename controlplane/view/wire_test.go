package view_test

import (
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// TestAnEdgeNamesTheEndpointThatItLeadsTo: it led to "/", which is no member.
func TestAnEdgeNamesTheEndpointThatItLeadsTo(t *testing.T) {
	f := view.Federation{
		Members: []view.Replica{{ClusterID: "a", ServiceName: "s", Coordinator: true}, {Type: oscar.MemberEndpoint, URL: "https://e.example.org/job"}},
		Edges:   [][2]int{{0, 1}},
	}
	wire := f.Wire(time.Now())
	if want := [2]string{"a/s", "https://e.example.org/job"}; !slices.Contains(wire.Edges, want) {
		t.Errorf("%v; want %v", wire.Edges, want)
	}
}

// The words that clients look for are those of the records.
func TestPhasesOnTheWireAreThoseOfRecords(t *testing.T) {
	for wire, phase := range map[string]record.Phase{
		v1.PhasePreparing: record.PhasePreparing, v1.PhaseApplying: record.PhaseApplying, v1.PhaseReady: record.PhaseReady,
		v1.PhaseAborted: record.PhaseAborted, v1.PhaseRollingBack: record.PhaseRollingBack, v1.PhaseRolledBack: record.PhaseRolledBack,
		v1.PhaseDeleting: record.PhaseDeleting, v1.PhaseDeleted: record.PhaseDeleted,
	} {
		if wire != string(phase) {
			t.Errorf("%s is %s in records", wire, phase)
		}
	}
}

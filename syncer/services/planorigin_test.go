package services

import (
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

// With another storage than it was seen with, a service is as one of a new generation: it
// is sent again, and then what OSCAR shows is what later looks are compared with.
func TestPlanOfAServiceWhoseStorageMoves(t *testing.T) {
	s := situation{
		now: now, desired: &record.Desired{Intent: record.IntentApply, UID: "u", Generation: 2, Drift: oscar.DriftReport}, revision: 7,
		observed: &record.Observed{UID: "u", Phase: record.PhaseReady, ObservedGeneration: 2, DesiredRevision: 7, ReadBack: "before"},
		local:    local{whose: ours, generation: 2, hash: "before", differs: "storage_providers"}, moved: true,
	}
	if d := plan(s); d.act != update || d.repair || d.drifted {
		t.Errorf("it moves: %+v", d)
	}
	s.local.hash, s.local.differs, s.fresh = "after", "", true
	if d := plan(s); d.act != settle {
		t.Errorf("it has moved: %+v", d)
	}
	s.Stopped, s.local.differs = true, "storage_providers"
	if d := plan(s); d.act != rest {
		t.Errorf("the cluster is paused: %+v", d)
	}
	s.Stopped, s.moved = false, false
	if d := plan(s); d.act != report || d.phase != record.PhaseDrifted {
		t.Errorf("somebody has changed it: %+v", d)
	}
}

func TestReportsKeepWhatIsKnownOfTheStorage(t *testing.T) {
	d, says := &record.Desired{UID: "u", Generation: 1}, &record.Inputs{Readable: true}
	first := nextReport(nil, d, 1, "", finding{phase: record.PhaseReady, readBack: "x", storage: "there"}, now)
	if first.Storage != "there" || first.Inputs != nil {
		t.Errorf("first %+v", first)
	}
	first.Inputs = says
	if next := nextReport(first, d, 2, "", finding{phase: record.PhaseDrifted}, now); next.Storage != "there" || next.Inputs != says {
		t.Errorf("drifted %+v", next)
	}
	if next := nextReport(first, d, 2, "", finding{phase: record.PhaseReady, readBack: "y", storage: "there"}, now); next.Inputs != says {
		t.Errorf("settled again %+v", next)
	}
	for name, f := range map[string]finding{
		"its own storage": {phase: record.PhaseReady, readBack: "y"}, "another one": {phase: record.PhaseReady, readBack: "y", storage: "elsewhere"},
		"deleted": {phase: record.PhaseDeleted},
	} {
		if next := nextReport(first, d, 2, "", f, now); next.Inputs != nil {
			t.Errorf("%s: %+v", name, next)
		}
	}
}

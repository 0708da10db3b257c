package view_test

import (
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store/record"
)

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

package e2e_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

// TestAnIdleFederationWritesNothing: full compares and renewed leases cost no
// revision. The same over minutes and a hundred clusters is part of the figures.
func TestAnIdleFederationWritesNothing(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		compared := func(times int) {
			t.Helper()
			for _, id := range []string{a, b, c} {
				sim := w.Cluster(id).Sim
				before := sim.Calls()[oscarsim.OpList]
				w.Eventually("the cluster compares again", func() bool { return sim.Calls()[oscarsim.OpList] >= before+times })
			}
		}
		compared(2) // what the creation left to be told is told
		before := w.Revision()
		compared(4)
		if after := w.Revision(); after != before {
			t.Errorf("%d revisions were written, and nobody asked for anything", after-before)
		}
	})
}

package controlplane_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestAnAdditionKeepsTheThresholdThatCameWithIt: a change that waits for votes is made
// with everything that was submitted.
func TestAnAdditionKeepsTheThresholdThatCameWithIt(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		s := send(t, body).Service
		s.Federation.Delegation, s.Federation.ReschedulerThreshold = "topsis", 7
		s.Federation.Members = append(s.Federation.Members, oscar.Member{Type: "oscar", ClusterID: "d", ServiceName: "grayifyr3", Weight: new(4)})
		if _, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s}); err != nil {
			t.Fatal(err)
		}
		kv, err := w.store.Get(t.Context(), w.keys(record.FederationsPrefix)[0])
		if err != nil {
			t.Fatal(err)
		}
		f, err := store.Decode[record.Federation](kv)
		if err != nil {
			t.Fatal(err)
		}
		if f.Delegation != "topsis" || f.ReschedulerThreshold != 7 || len(f.Members) != 4 {
			t.Errorf("%+v", f)
		}
	})
}

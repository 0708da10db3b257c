package federations

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// TestAStepIsNotWrittenInAnotherEpoch: a restored store may have the record that a step was decided on,
// of the same revision, and not the votes.
func TestAStepIsNotWrittenInAnotherEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := virtual.Open(t)
		mirror := st.NewMirror(store.MirrorConfig{Prefixes: []string{record.Root}})
		c := &Controller{store: st, state: view.NewState(mirror, time.Now)}
		restored := record.At(time.Now())
		fed := record.Federation{V: record.Version, UID: "f", Phase: record.PhasePreparing, Generation: 1}
		res, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Put(record.MetaKey, record.Meta{V: record.Version, Epoch: "second", Epochs: []string{"first"}, RestoredAt: &restored})
			tx.Put(record.FederationKey("f"), fed)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		applying := fed
		applying.Phase = record.PhaseApplying
		decidedIn := func(epoch string) steps {
			return steps{{sit: view.Situation{Fed: fed, Epoch: epoch}, rev: res.Revision, next: decide.Decision{Step: "applied", Fed: &applying}}}
		}
		if _, err := c.commitSteps(t.Context(), decidedIn("first"), 0); !errors.Is(err, gate.ErrStale) {
			t.Errorf("a step of the first epoch: %v", err)
		}
		if _, err := c.commitSteps(t.Context(), decidedIn("second"), 0); err != nil {
			t.Errorf("a step of the second epoch: %v", err)
		}
	})
}

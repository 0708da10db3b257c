package federations

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// TestABatchOfAnOlderVersionEnds: 0.2.0 accepted up to 120 services of one request, of which each takes eight writes when
// all are refused.
func TestABatchOfAnOlderVersionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := virtual.Open(t)
		mirror := st.NewMirror(store.MirrorConfig{Prefixes: []string{record.Root}})
		c := &Controller{store: st, state: view.NewState(mirror, time.Now)}
		var all steps
		none := func(view.ReplicaState) *record.Failure { return nil }
		res, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			all = nil
			tx.Put(record.MetaKey, record.Meta{V: record.Version, Epoch: "first"})
			tx.Put(record.RequestKey("r"), record.Request{V: record.Version, UID: "f0", Keyed: true})
			for i := range oscar.MaxReplicas {
				at := record.Member{Type: oscar.MemberOSCAR, ClusterID: "a", ServiceName: fmt.Sprintf("s%d", i), UID: fmt.Sprintf("u%d", i), Coordinator: true}
				fed := record.Federation{
					V: record.Version, UID: fmt.Sprintf("f%d", i), Batch: "f0", Owner: "ann", GroupID: at.ServiceName, Generation: 1,
					Phase: record.PhasePreparing, Members: []record.Member{at}, Request: "r",
				}
				desired := &record.Desired{UID: at.UID, Federation: fed.UID, Intent: record.IntentPrepare, Spec: at.ServiceName + "/" + at.UID + ".1"}
				tx.Put(record.FederationKey(fed.UID), fed)
				tx.Put(record.NameKey(fed.Owner, fed.GroupID), record.Name{V: record.Version, UID: fed.UID})
				tx.Put(record.DesiredServiceKey("a", at.ServiceName), desired)
				sit := view.Situation{Fed: fed, Now: time.Now(), Replicas: []view.ReplicaState{{At: at, Desired: desired}}}
				all = append(all, step{sit: sit, next: decide.Abort(sit, none)})
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			all[i].rev = res.Revision
		}
		if _, err := c.commitSteps(t.Context(), all, 0); err != nil {
			t.Fatal(err)
		}
		for _, prefix := range []string{record.NamesPrefix, record.DesiredServicesPrefix("a")} {
			if left, err := st.ListKeys(t.Context(), prefix); err != nil || len(left) > 0 {
				t.Errorf("%d keys of %s are left, %v", len(left), prefix, err)
			}
		}
	})
}

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

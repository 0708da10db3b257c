package controlplane_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

func TestTheSameRequestGetsTheSameOutcome(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		key := func(r *federations.CreateRequest) { r.IdempotencyKey = "k1" }
		first, err := w.create(key)
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.create(key)
		if err != nil || !again.Replayed || again.Federation.UID != first.Federation.UID {
			t.Errorf("%+v %v", again, err)
		}
		if _, err := w.create(); codeOf(t, err) != fault.CodeAlreadyExists {
			t.Errorf("without the key it is another request: %v", err)
		}
		other := strings.Replace(body, "0.5Gi", "1Gi", 1)
		_, err = w.Federations.CreateService(t.Context(), admin, send(t, other, key))
		if codeOf(t, err) != fault.CodeFailedPrecondition {
			t.Errorf("the key with another body: %v", err)
		}
		// A failure is kept as well.
		w.clusters["b"].does(no(record.ReasonDoesNotFit))
		refused := strings.NewReplacer("grayifyr", "other").Replace(body)
		key2 := func(r *federations.CreateRequest) { r.IdempotencyKey = "k2" }
		_, err1 := w.Federations.CreateService(t.Context(), admin, send(t, refused, key2))
		w.clusters["b"].does(yes)
		_, err2 := w.Federations.CreateService(t.Context(), admin, send(t, refused, key2))
		if codeOf(t, err1) != fault.CodeFailedPrecondition || codeOf(t, err2) != codeOf(t, err1) || err1.Error() != err2.Error() {
			t.Errorf("%v and then %v", err1, err2)
		}
	})
}

// TestTheOutcomeOfAFederationThatIsGone is what it was: ready, of generation 1, with
// the revision that it had; and not how its replicas are by now.
func TestTheOutcomeOfAFederationThatIsGone(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		key := func(r *federations.CreateRequest) { r.IdempotencyKey = "k1" }
		first, err := w.create(key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		again, err := w.create(key)
		if err != nil || !again.Replayed {
			t.Fatalf("%+v %v", again, err)
		}
		got, want := again.Federation, first.Federation
		if got.UID != want.UID || got.Phase != record.PhaseReady || got.Revision != want.Revision || got.Revision == 0 {
			t.Errorf("%s is %s at revision %d, want %s ready at %d", got.UID, got.Phase, got.Revision, want.UID, want.Revision)
		}
		for _, m := range got.Members {
			if m.Status.Phase != record.PhaseReady || m.Status.ObservedGeneration != 1 {
				t.Errorf("%s is shown as %+v", m.ClusterID, m.Status)
			}
		}
	})
}

func TestTheSameRequestAfterItsOutcomeIsANewOne(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["b"].does(no(record.ReasonDoesNotFit))
		if _, err := w.create(); codeOf(t, err) != fault.CodeFailedPrecondition {
			t.Fatal(err)
		}
		// What a request without a key left behind must not answer for the next one,
		// not even when the instance that decided died before it took it away.
		items, _, err := w.store.List(t.Context(), record.FederationsPrefix)
		if err != nil || len(items) != 1 {
			t.Fatal(len(items), err)
		}
		fed, err := store.Decode[record.Federation](items[0])
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Put(record.RequestKey(fed.Request), record.Request{V: record.Version, BodyHash: "stale", UID: fed.UID})
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		w.clusters["b"].does(yes)
		if _, err := w.create(); err != nil {
			t.Error(err)
		}
	})
}

func TestConcurrentSameRequestsMakeOneFederation(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		var wg sync.WaitGroup
		uids := make([]string, 8)
		for i := range uids {
			wg.Go(func() {
				res, err := w.create()
				if err == nil {
					uids[i] = res.Federation.UID
				} else if code := codeOf(t, err); code != fault.CodeAlreadyExists && code != fault.CodeConflict {
					// Without a key, the first one is forgotten with its outcome: who looks just
					// then hears 409, by the one or the other word.
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := w.keys(record.FederationsPrefix); len(got) != 1 {
			t.Errorf("%d federations", len(got))
		}
	})
}

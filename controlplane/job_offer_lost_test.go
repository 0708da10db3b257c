package controlplane_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/test/await"
)

// readmitted is what becomes of a cluster that wrote too much: its reports are gone, with those of its offers.
func (w *world) readmitted(p *fakeSyncer) {
	w.t.Helper()
	p.disconnect()
	w.revoked(p)
	w.eventually(func() bool {
		_, err := w.Clusters.Readmit(w.t.Context(), admin, p.cluster)
		return err == nil
	})
	if keys := w.keys(record.ObservedPrefix(p.cluster)); len(keys) > 0 {
		w.t.Fatalf("it is readmitted, and has %v", keys)
	}
}

// revoked is what an instance writes of a cluster that wrote too much.
func (w *world) revoked(p *fakeSyncer) {
	w.t.Helper()
	key, desired := record.ClusterKey(p.cluster), record.DesiredClusterKey(p.cluster)
	if _, err := w.store.Update(w.t.Context(), store.Update{Keys: []string{key, desired}, Build: func(v store.View, tx *store.Txn) error {
		kv, _ := v.KV(key)
		reg, err := store.Decode[record.Cluster](kv)
		if err != nil {
			return err
		}
		kv, _ = v.KV(desired)
		told, err := store.Decode[record.DesiredCluster](kv)
		if err != nil {
			return err
		}
		reg.Revoked = &record.Revocation{Message: "it wrote too much", At: record.At(time.Now())}
		reg.State, told.State = record.ClusterRevoked, record.ClusterRevoked
		tx.Expect(key)
		tx.Expect(desired)
		tx.Put(key, reg)
		tx.Put(desired, told)
		return nil
	}}); err != nil {
		w.t.Fatal(err)
	}
}

// TestAReadmissionKeepsThatATokenWasRevoked: the token is gone, and nothing else tells.
func TestAReadmissionKeepsThatATokenWasRevoked(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		c, uid := w.clusters["c"], w.onlyFederation().UID
		order := record.Hold{V: 1, Order: record.HoldRevoke, Serial: 7, Owner: admin.Subject}
		w.put(record.HoldKey("c", uid), order)
		c.write(record.HoldingKey("c", uid), record.Holding{V: 1, State: record.HoldWaiting, Serial: 7, Revoked: true})
		w.readmitted(c)
		kv, err := w.store.Get(t.Context(), record.HoldKey("c", uid))
		if err != nil {
			t.Fatal(err)
		}
		if h, err := store.Decode[record.Hold](kv); err != nil || !h.Revoked || h.Serial != order.Serial {
			t.Errorf("the order is %+v, %v", h, err)
		}
	})
}

// TestAReadmissionKeepsWhoseASecretIs: it stands alone after a write that broke off, and nothing else tells. A service
// that was seen in place since has left none.
func TestAReadmissionKeepsWhoseASecretIs(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		c := w.clusters["c"]
		c.does(func(string, *record.Desired) *record.Observed { return nil }) // a revoked one cannot
		order := func() (*record.Desired, int64) {
			kv, err := w.store.Get(t.Context(), record.DesiredServiceKey("c", "grayifyr2"))
			if err != nil {
				t.Fatal(err)
			}
			d, err := store.Decode[record.Desired](kv)
			if err != nil {
				t.Fatal(err)
			}
			return d, kv.ModRevision
		}
		key := record.ObservedServiceKey("c", "grayifyr2")
		kv, err := w.store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		o, err := store.Decode[record.Observed](kv)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct{ bare, readBack, keeps string }{
			{"a POST", "", "a POST"},
			{"", "", "a POST"}, // it was not looked at since
			{"a DELETE", "sha256:a", "a DELETE"},
			{"", "sha256:a", ""},
		} {
			_, o.DesiredRevision = order()
			o.Bare, o.ReadBack = step.bare, step.readBack
			c.write(key, o)
			w.readmitted(c)
			if d, _ := order(); d.Told == nil || d.Told.Bare != step.keeps {
				t.Errorf("after %+v it keeps %+v", step, d.Told)
			}
		}
	})
}

// TestAReadmissionLeavesTheAnswersToOffers: its syncer holds the Jobs still, and one whose answer release is lost would
// run a second time.
func TestAReadmissionLeavesTheAnswersToOffers(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("a", "c")
		c := w.clusters["c"]
		frozen := func() string {
			id := uuid.NewString()
			c.offers("grayifyr2", id, "its-name", record.OfferWaiting)
			w.answers(c, id, record.OfferFreeze)
			c.offers("grayifyr2", id, "its-name", record.OfferFrozen)
			w.exists(id)
			return id
		}
		elsewhere := frozen()
		p, _ := w.at(elsewhere)
		for _, state := range whole()[:3] {
			p.says(elsewhere, 1, state)
		}
		w.answers(c, elsewhere, record.OfferRelease)
		late := frozen()
		w.at(late)
		waits := uuid.NewString()
		c.offers("grayifyr2", waits, "its-name", record.OfferWaiting)
		w.answers(c, waits, record.OfferFreeze)
		w.full("b")
		c.offers("grayifyr2", waits, "its-name", record.OfferFrozen)
		w.exists(waits)

		w.readmitted(c)
		for _, state := range whole()[:3] {
			p.says(late, 1, state)
		}
		w.is(waits, record.JobReturned)
		<-time.After(time.Minute)
		c.connect()
		<-time.After(time.Minute)
		for id, word := range map[string]record.OfferWord{elsewhere: record.OfferRelease, late: record.OfferRelease, waits: record.OfferRestore} {
			if a := c.answered(id); a == nil || a.Answer != word {
				t.Errorf("its syncer holds the Job, and is told %+v, not %s", a, word)
			}
		}
		c.offers("grayifyr2", elsewhere, "its-name", record.OfferReleased)
		w.eventually(func() bool { return c.answered(elsewhere) == nil })
		// What its syncer says nothing of is over.
		w.eventually(func() bool { return c.answered(late) == nil && c.answered(waits) == nil })
	})
}

// TestAHeldJobWhoseOfferIsLostIsDecidedOn when every member has told of its Jobs, whether or not another one has room: it
// is deleted if another one has it, and goes on otherwise.
func TestAHeldJobWhoseOfferIsLostIsDecidedOn(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("a", "b", "c")
		epoch := w.restore()
		c := w.clusters["c"]
		elsewhere, nowhere := uuid.NewString(), uuid.NewString()
		held := func(_ *string, o *record.Offer) { o.Held = true }
		for _, id := range []string{elsewhere, nowhere} {
			c.offers("grayifyr2", id, "its-name", record.OfferWaiting, held)
		}
		w.clusters["b"].finds("grayifyr1", elsewhere, 1, record.JobSubmitted, epoch)
		w.exists(elsewhere)
		c.lists(epoch)
		w.clusters["b"].lists(epoch)
		<-time.After(time.Minute)
		for _, id := range []string{elsewhere, nowhere} {
			if a := c.answered(id); a != nil {
				t.Errorf("a has not listed, and the answer is %s", a.Answer)
			}
		}
		w.clusters["a"].lists(epoch)
		w.answers(c, elsewhere, record.OfferRelease)
		w.answers(c, nowhere, record.OfferRestore)
		if _, err := w.Jobs.Get(t.Context(), admin, nowhere); err == nil {
			t.Error("it is a job, and was given back")
		}
		c.offers("grayifyr2", elsewhere, "its-name", record.OfferReleased)
		c.offers("grayifyr2", nowhere, "its-name", record.OfferRestored)
		w.eventually(func() bool { return c.answered(elsewhere) == nil && c.answered(nowhere) == nil })
	})
}

// TestOnlySomeOffersAreTakenAtOnceAfterARestore: the others wait for a place.
func TestOnlySomeOffersAreTakenAtOnceAfterARestore(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("a", "b", "c")
		w.restore()
		for _, p := range w.clusters {
			p.disconnect() // nothing is assigned
		}
		c := w.clusters["c"]
		kv, err := w.store.Get(t.Context(), record.MetaKey)
		if err != nil {
			t.Fatal(err)
		}
		meta, err := store.Decode[record.Meta](kv)
		if err != nil {
			t.Fatal(err)
		}
		kv, err = w.store.Get(t.Context(), record.DesiredServiceKey(c.cluster, "grayifyr2"))
		if err != nil {
			t.Fatal(err)
		}
		d, err := store.Decode[record.Desired](kv)
		if err != nil {
			t.Fatal(err)
		}
		at := record.At(time.Now())
		for range 2 {
			if _, err := c.store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
				for range 60 {
					id := uuid.NewString()
					sealed, err := seal.Seal(seal.Header{Purpose: seal.PurposeEvent, UID: id}, []byte(secretEvent), meta.Recipient)
					if err != nil {
						return err
					}
					tx.Put(record.OfferKey(c.cluster, id), record.Offer{
						V: record.Version, State: record.OfferFrozen, Federation: d.Federation, Service: "grayifyr2", UID: d.UID, Name: "its-name",
						Since: at, Size: len(secretEvent), LastTransitionTime: at,
					})
					tx.Put(record.OfferedEventKey(c.cluster, id), record.Event{V: record.Version, Sealed: sealed})
				}
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
		}
		most := 0
		for range 30 {
			<-time.After(time.Second)
			most = max(most, len(w.keys(record.JobsPrefix)))
		}
		if most != 20 {
			t.Errorf("%d are taken at once", most)
		}
	})
}

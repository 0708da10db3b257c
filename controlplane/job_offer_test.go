package controlplane_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/test/await"
)

// offers reports a Job of a service that waits, as its syncer does; frozen with its
// event, sealed to whom the answer names.
func (p *fakeSyncer) offers(service, job, name string, state record.OfferState, mutate ...func(event *string, o *record.Offer)) {
	p.t.Helper()
	body, offer := secretEvent, record.Offer{}
	for _, m := range mutate {
		m(&body, &offer)
	}
	kv, err := p.store.Get(p.t.Context(), record.DesiredServiceKey(p.cluster, service))
	if err != nil {
		p.t.Fatal(err)
	}
	d, err := store.Decode[record.Desired](kv)
	if err != nil {
		p.t.Fatal(err)
	}
	var event *record.Event
	if state == record.OfferFrozen {
		sealed, err := seal.Seal(seal.Header{Purpose: seal.PurposeEvent, UID: job}, []byte(body), p.answered(job).Recipient)
		if err != nil {
			p.t.Fatal(err)
		}
		event = &record.Event{V: record.Version, Sealed: sealed}
	}
	at := record.At(time.Now())
	_, err = p.store.Update(p.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(record.OfferKey(p.cluster, job), record.Offer{
			V: record.Version, State: state, Federation: d.Federation, Service: service, UID: d.UID, Name: name, Since: at,
			Size: len(body), BucketEvent: offer.BucketEvent, Held: offer.Held, LastTransitionTime: at,
		})
		if event != nil {
			tx.Put(record.OfferedEventKey(p.cluster, job), event)
		}
		return nil
	}})
	if err != nil {
		p.t.Fatal(err)
	}
}

// ofBucket makes what is offered an event of a bucket; an older syncer does not say so.
func ofBucket(says bool) func(*string, *record.Offer) {
	return func(event *string, o *record.Offer) { *event, o.BucketEvent = bucketEvent, says }
}

// answered is what stands as the answer to an offer; nil for nothing.
func (p *fakeSyncer) answered(job string) *record.OfferAnswer {
	p.t.Helper()
	items, _, err := p.store.List(p.t.Context(), record.OfferAnswersPrefix(p.cluster))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, kv := range items {
		if record.ParseKey(kv.Key).Name == job {
			a, err := store.Decode[record.OfferAnswer](kv)
			if err != nil {
				p.t.Fatal(err)
			}
			return a
		}
	}
	return nil
}

func (w *world) answers(p *fakeSyncer, job string, word record.OfferWord) {
	w.t.Helper()
	w.eventually(func() bool { a := p.answered(job); return a != nil && a.Answer == word })
}

// exists waits until a job is known.
func (w *world) exists(id string) {
	w.t.Helper()
	w.eventually(func() bool { _, err := w.Jobs.Get(w.t.Context(), admin, id); return err == nil })
}

func (w *world) full(clusters ...string) {
	for _, id := range clusters {
		w.clusters[id].has(1)
	}
}

// TestAWaitingJobGoesWhereThereIsRoom: it is frozen only when somebody would take it,
// and released only when OSCAR there has it.
func TestAWaitingJobGoesWhereThereIsRoom(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("a", "b", "c")
		c, id := w.clusters["c"], uuid.NewString()
		c.offers("grayifyr2", id, "grayifyr2-"+id, record.OfferWaiting)
		queued := w.submit() // seen after the offer
		if a := c.answered(id); a != nil {
			t.Errorf("nobody has room, and the answer is %s", a.Answer)
		}
		if _, err := w.Jobs.Cancel(t.Context(), admin, jobs.Order{Job: queued.ID}); err != nil {
			t.Fatal(err)
		}
		w.clusters["b"].has(4000)
		w.answers(c, id, record.OfferFreeze)
		if keys := w.leaves(id); len(keys) != 2 {
			t.Errorf("before it is frozen: %v", keys)
		}
		c.offers("grayifyr2", id, "grayifyr2-"+id, record.OfferFrozen)
		w.exists(id)
		p, j := w.at(id)
		if p.cluster != "b" || !j.Offered || p.event(id, 1) != secretEvent || j.ClusterID != "c" {
			t.Errorf("%+v", j)
		}
		p.says(id, 1, record.JobClaimed)
		p.says(id, 1, record.JobSubmitting)
		if a := c.answered(id); a.Answer != record.OfferFreeze {
			t.Errorf("released before it is known to be there: %+v", a)
		}
		p.says(id, 1, record.JobSubmitted)
		w.answers(c, id, record.OfferRelease)
		c.offers("grayifyr2", id, "grayifyr2-"+id, record.OfferReleased)
		w.eventually(func() bool { return c.answered(id) == nil })
		p.says(id, 1, record.JobSucceeded)
		w.is(id, record.JobSucceeded)
	})
}

// TestAFrozenJobThatNobodyTakesGoesOn where it was, and may be offered again.
func TestAFrozenJobThatNobodyTakesGoesOn(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		c, id := w.clusters["c"], uuid.NewString()
		for range 2 {
			w.clusters["b"].has(4000)
			c.offers("grayifyr2", id, "its-name", record.OfferWaiting)
			w.answers(c, id, record.OfferFreeze)
			w.full("a", "b", "c")
			c.offers("grayifyr2", id, "its-name", record.OfferFrozen)
			w.answers(c, id, record.OfferRestore)
			if j := w.is(id, record.JobReturned); !j.Offered {
				t.Errorf("%+v", j)
			}
			c.offers("grayifyr2", id, "its-name", record.OfferRestored)
			w.eventually(func() bool { return c.answered(id) == nil })
		}
	})
}

// TestOurJobThatWaitsIsTakenAndGivenBack: its attempt there is gone while it stands
// frozen; when nobody takes it, another attempt is the Job that stands.
func TestOurJobThatWaitsIsTakenAndGivenBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("a", "b")
		j := w.submit()
		p, at := w.at(j.ID)
		for _, state := range whole()[:3] {
			p.says(j.ID, 1, state)
		}
		service, name := at.Place.ServiceName, at.Place.Name
		w.clusters["b"].has(4000)
		p.offers(service, j.ID, name, record.OfferWaiting)
		w.answers(p, j.ID, record.OfferFreeze)
		w.full("b")
		p.offers(service, j.ID, name, record.OfferFrozen)
		w.answers(p, j.ID, record.OfferRestore)
		back := w.becomes(j.ID, func(j *jobs.Job) bool { return j.State == record.JobAssigned && j.Attempt == 2 })
		if back.Place.ClusterID != p.cluster || back.Place.Name != name || p.event(j.ID, 2) != secretEvent {
			t.Errorf("%+v", back)
		}
		p.offers(service, j.ID, name, record.OfferRestored)
		w.eventually(func() bool { return p.answered(j.ID) == nil })
		// It is not taken back as unclaimed, since it stands there.
		p.disconnect()
		w.becomes(j.ID, func(j *jobs.Job) bool { return j.Unreachable })
		p.connect()
		// Its syncer looks for it, and refuses nothing: it may run already.
		if all := p.standing(); len(all) != 1 || !all[0].Posted {
			t.Errorf("its syncer is asked %+v", all)
		}
		p.says(j.ID, 2, record.JobSubmitted, func(r *record.JobReport) { r.Found = true })
		for _, state := range whole()[3:] {
			p.says(j.ID, 2, state)
		}
		w.is(j.ID, record.JobSucceeded)
	})
}

// TestAJobThatStartsWhileItIsHandedOverIsNotStartedElsewhere.
func TestAJobThatStartsWhileItIsHandedOverIsNotStartedElsewhere(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("a")
		c, id := w.clusters["c"], uuid.NewString()
		c.offers("grayifyr2", id, "its-name", record.OfferWaiting)
		w.answers(c, id, record.OfferFreeze)
		c.offers("grayifyr2", id, "its-name", record.OfferFrozen)
		w.exists(id)
		p, _ := w.at(id)
		c.offers("grayifyr2", id, "its-name", record.OfferStarted)
		w.is(id, record.JobReturned)
		if a := p.standing(); len(a) != 0 {
			t.Errorf("%+v", a)
		}
		w.eventually(func() bool { return c.answered(id) == nil })
	})
}

// withdraws takes an offer away, with its event.
func (p *fakeSyncer) withdraws(job string) {
	p.t.Helper()
	if _, err := p.store.Update(p.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for _, key := range []string{record.OfferKey(p.cluster, job), record.OfferedEventKey(p.cluster, job)} {
			tx.Delete(key)
			tx.Touch(key)
		}
		return nil
	}}); err != nil {
		p.t.Fatal(err)
	}
}

// TestNobodyFillsTheQueueWithOffers: what was not asked for is not taken, and what was taken and has no offer any more
// does not stay.
func TestNobodyFillsTheQueueWithOffers(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("a", "c")
		c, asked := w.clusters["c"], uuid.NewString()
		c.offers("grayifyr2", asked, "its-name", record.OfferWaiting)
		w.answers(c, asked, record.OfferFreeze)
		recipient := c.answered(asked).Recipient
		unasked := make([]string, 30)
		for i := range unasked {
			unasked[i] = uuid.NewString()
			c.write(record.OfferAnswerKey(c.cluster, unasked[i]), record.OfferAnswer{V: record.Version, Recipient: recipient})
			c.offers("grayifyr2", unasked[i], "its-name", record.OfferFrozen)
		}
		w.eventually(func() bool {
			for _, id := range unasked {
				if a := c.answered(id); a == nil || a.Answer != record.OfferRestore {
					return false
				}
			}
			return true
		})
		for _, id := range unasked {
			if _, err := w.Jobs.Get(t.Context(), admin, id); err == nil {
				t.Errorf("job %s is taken, and nobody has asked for it", id)
			}
			c.withdraws(id)
		}
		w.full("b")
		c.offers("grayifyr2", asked, "its-name", record.OfferFrozen)
		w.exists(asked)
		c.withdraws(asked)
		w.is(asked, record.JobReturned)
		w.eventually(func() bool { return len(w.leaves(asked)) == 1 }) // its record
		w.eventually(func() bool {
			for _, id := range unasked {
				if len(w.leaves(id)) > 0 {
					return false
				}
			}
			return true
		})
	})
}

// TestFreezesThatAreNotCarriedOutHoldUpNoOtherCluster: its syncer is away, and may be for long.
func TestFreezesThatAreNotCarriedOutHoldUpNoOtherCluster(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("b", "c")
		b, c := w.clusters["b"], w.clusters["c"]
		asked := func() int { return len(w.keys(record.OfferAnswersPrefix(c.cluster))) }
		for range 25 {
			c.offers("grayifyr2", uuid.NewString(), "its-name", record.OfferWaiting)
		}
		w.eventually(func() bool { return asked() == 20 })
		c.disconnect()
		other := uuid.NewString()
		b.offers("grayifyr1", other, "another", record.OfferWaiting)
		<-time.After(30 * time.Second)
		if a := b.answered(other); a != nil {
			t.Errorf("20 may be frozen any moment, and the answer is %s", a.Answer)
		}
		<-time.After(time.Minute)
		w.answers(b, other, record.OfferFreeze)
		<-time.After(time.Hour)
		if n := asked(); n != 20 {
			t.Errorf("%d are to be frozen by a cluster that freezes none", n)
		}
	})
}

// TestOffersCountInTheLimitsOfJobs that are in flight.
func TestOffersCountInTheLimitsOfJobs(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t, func(c *controlplane.Config) { c.JobsPerFederation = 1 })
		w.full("a", "b", "c")
		queued := w.submit()
		c, id := w.clusters["c"], uuid.NewString()
		c.offers("grayifyr2", id, "its-name", record.OfferWaiting)
		w.clusters["b"].has(4000)
		w.at(queued.ID)
		<-time.After(time.Minute)
		if a := c.answered(id); a != nil {
			t.Errorf("it is one too many, and the answer is %s", a.Answer)
		}
		if _, err := w.Jobs.Cancel(t.Context(), admin, jobs.Order{Job: queued.ID}); err != nil {
			t.Fatal(err)
		}
		w.answers(c, id, record.OfferFreeze)
	})
}

// readmitted is what becomes of a cluster that wrote too much: its reports are gone, with those of its offers.
func (w *world) readmitted(p *fakeSyncer) {
	w.t.Helper()
	p.disconnect()
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
	w.eventually(func() bool {
		_, err := w.Clusters.Readmit(w.t.Context(), admin, p.cluster)
		return err == nil
	})
	if keys := w.keys(record.ObservedPrefix(p.cluster)); len(keys) > 0 {
		w.t.Fatalf("it is readmitted, and has %v", keys)
	}
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

// TestAnOfferOfAServiceThatIsGoneIsNotTaken: a cluster that was removed by force has its tombstones and answers for long.
func TestAnOfferOfAServiceThatIsGoneIsNotTaken(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("a", "c")
		c, id := w.clusters["c"], uuid.NewString()
		c.offers("grayifyr2", id, "its-name", record.OfferWaiting)
		w.answers(c, id, record.OfferFreeze)
		c.does(silent)
		c.disconnect()
		if _, err := w.Clusters.Remove(t.Context(), admin, c.cluster, clusters.RemoveOptions{Force: true, Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		c.offers("grayifyr2", id, "its-name", record.OfferFrozen)
		w.answers(c, id, record.OfferRestore)
		<-time.After(time.Minute)
		if _, err := w.Jobs.Get(t.Context(), admin, id); err == nil {
			t.Error("it is a job, and its service is gone")
		}
	})
}

// TestAnswersToOffersThatAreGoneAreBounded: a cluster could offer Jobs, be answered and take them away without end, and what
// the control plane had answered filled etcd.
func TestAnswersToOffersThatAreGoneAreBounded(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		c := w.clusters["c"]
		kv, err := c.store.Get(t.Context(), record.DesiredServiceKey(c.cluster, "grayifyr2"))
		if err != nil {
			t.Fatal(err)
		}
		d, err := store.Decode[record.Desired](kv)
		if err != nil {
			t.Fatal(err)
		}
		for range 15 {
			var ids []string
			for range 100 {
				ids = append(ids, uuid.NewString())
			}
			all := func(do func(tx *store.Txn, id string)) {
				if _, err := c.store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
					for _, id := range ids {
						do(tx, id)
					}
					return nil
				}}); err != nil {
					t.Fatal(err)
				}
			}
			at := record.At(time.Now())
			all(func(tx *store.Txn, id string) {
				tx.Put(record.OfferKey(c.cluster, id), record.Offer{
					V: record.Version, State: record.OfferFrozen, Federation: d.Federation, Service: "grayifyr2", UID: d.UID, Name: id, Since: at, LastTransitionTime: at,
				})
			})
			w.answers(c, ids[len(ids)-1], record.OfferRestore)
			<-time.After(time.Second)
			all(func(tx *store.Txn, id string) {
				tx.Delete(record.OfferKey(c.cluster, id))
				tx.Touch(record.OfferKey(c.cluster, id))
			})
			c.disconnect() // no session lasts
			c.connect()
		}
		<-time.After(10 * time.Second)
		if keys := w.keys(record.OfferAnswersPrefix(c.cluster)); len(keys) > 1024 {
			t.Errorf("%d answers are left of offers that are gone", len(keys))
		}
	})
}

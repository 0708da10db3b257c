package controlplane_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

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

// TestOffersOfSeveralFederationsCountInTheLimitOfTheirUser: they are taken in one transaction.
func TestOffersOfSeveralFederationsCountInTheLimitOfTheirUser(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const most = 2
		w := newJobWorld(t, func(c *controlplane.Config) { c.JobsPerUser = most })
		services := []string{"grayifyr2"}
		for _, name := range []string{"second", "third", "fourth"} {
			if _, err := w.create(func(r *federations.CreateRequest) { *r = send(t, strings.ReplaceAll(body, "grayifyr", name)) }); err != nil {
				t.Fatal(err)
			}
			services = append(services, name+"2")
		}
		c, asked := w.clusters["c"], map[string]string{}
		for _, s := range services {
			asked[s] = uuid.NewString()
			c.offers(s, asked[s], "its-name", record.OfferWaiting)
			w.answers(c, asked[s], record.OfferFreeze)
		}
		w.full("a", "b", "c")
		<-time.After(time.Minute)
		var frozen []func(*store.Txn)
		for s, id := range asked {
			frozen = append(frozen, c.offer(s, id, "its-name", record.OfferFrozen))
		}
		c.writes(frozen...)
		count := func() (taken, restored int) {
			for _, id := range asked {
				if _, err := w.Jobs.Get(t.Context(), admin, id); err == nil {
					taken++
				} else if a := c.answered(id); a != nil && a.Answer == record.OfferRestore {
					restored++
				}
			}
			return taken, restored
		}
		w.eventually(func() bool {
			taken, restored := count()
			return taken+restored == len(asked)
		})
		if taken, _ := count(); taken != most {
			t.Errorf("a user may have %d jobs in flight, and %d are taken", most, taken)
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

// TestNoAnswerToAnOfferThatHasNoID: a record of its job would be made of what the cluster calls it.
func TestNoAnswerToAnOfferThatHasNoID(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("a", "c")
		c, asked := w.clusters["c"], uuid.NewString()
		none := []string{"\xff", strings.ToUpper(asked), strings.Repeat("x", 1000)}
		for _, id := range none {
			c.offers("grayifyr2", id, "its-name", record.OfferWaiting)
		}
		c.offers("grayifyr2", asked, "its-name", record.OfferWaiting)
		w.answers(c, asked, record.OfferFreeze)
		for _, id := range none {
			if a := c.answered(id); a != nil {
				t.Errorf("offer %q is answered: %+v", id, a)
			}
		}
	})
}

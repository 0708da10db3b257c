package controlplane_test

import (
	"sync/atomic"
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
	p.writes(p.offer(service, job, name, state, mutate...))
}

// writes makes one transaction of all.
func (p *fakeSyncer) writes(all ...func(*store.Txn)) {
	p.t.Helper()
	if _, err := p.store.Update(p.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for _, write := range all {
			write(tx)
		}
		return nil
	}}); err != nil {
		p.t.Fatal(err)
	}
}

// offer is what writes an offer.
func (p *fakeSyncer) offer(service, job, name string, state record.OfferState, mutate ...func(event *string, o *record.Offer)) func(*store.Txn) {
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
	return func(tx *store.Txn) {
		tx.Put(record.OfferKey(p.cluster, job), record.Offer{
			V: record.Version, State: state, Federation: d.Federation, Service: service, UID: d.UID, Name: name, Since: at,
			Size: len(body), BucketEvent: offer.BucketEvent, Held: offer.Held, LastTransitionTime: at,
		})
		if event != nil {
			tx.Put(record.OfferedEventKey(p.cluster, job), event)
		}
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

// asksToFreeze has a submitted job wait at its cluster, whose syncer is asked to freeze it for b. The job is as it was assigned,
// and offers is for what its syncer says of it next.
func (w *world) asksToFreeze() (p *fakeSyncer, j *jobs.Job, offers func(record.OfferState)) {
	w.t.Helper()
	w.full("a", "b")
	p, j = w.at(w.submit().ID)
	for _, state := range whole()[:3] {
		p.says(j.ID, 1, state)
	}
	offers = func(state record.OfferState) { p.offers(j.Place.ServiceName, j.ID, j.Place.Name, state) }
	w.clusters["b"].has(4000)
	offers(record.OfferWaiting)
	w.answers(p, j.ID, record.OfferFreeze)
	return p, j, offers
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

// TestAFrozenJobThatIsRefusedGoesOn where it was: it is not parked, since only a person would let it go on then.
func TestAFrozenJobThatIsRefusedGoesOn(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("a", "b")
		b, c, id := w.clusters["b"], w.clusters["c"], w.submit().ID
		refuse := func(p *fakeSyncer, n int) {
			w.becomes(id, func(j *jobs.Job) bool { return j.State == record.JobAssigned && j.Attempt == n })
			for _, state := range []record.JobState{record.JobClaimed, record.JobSubmitting, record.JobRefused} {
				p.says(id, n, state)
			}
		}
		refuse(c, 1)
		refuse(c, 2)
		j := w.becomes(id, func(j *jobs.Job) bool { return j.State == record.JobAssigned && j.Attempt == 3 })
		for _, state := range whole()[:3] {
			c.says(id, 3, state)
		}
		b.has(4000)
		c.offers(j.Place.ServiceName, id, j.Place.Name, record.OfferWaiting)
		w.answers(c, id, record.OfferFreeze)
		c.offers(j.Place.ServiceName, id, j.Place.Name, record.OfferFrozen)
		for n := 4; n <= 6; n++ {
			refuse(b, n)
		}
		back := w.becomes(id, func(j *jobs.Job) bool { return j.State.Ended() || j.State == record.JobAssigned && j.Attempt == 7 })
		if back.State != record.JobAssigned || back.Place.ClusterID != "c" || back.Place.Name != j.Place.Name || back.Tries != 0 {
			t.Errorf("%+v", back)
		}
		w.answers(c, id, record.OfferRestore)
	})
}

// TestOurJobThatWaitsIsTakenAndGivenBack: its attempt there is gone while it stands
// frozen; when nobody takes it, another attempt is the Job that stands.
func TestOurJobThatWaitsIsTakenAndGivenBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		p, j, offers := w.asksToFreeze()
		w.full("b")
		offers(record.OfferFrozen)
		w.answers(p, j.ID, record.OfferRestore)
		back := w.becomes(j.ID, func(j *jobs.Job) bool { return j.State == record.JobAssigned && j.Attempt == 2 })
		if back.Place.ClusterID != p.cluster || back.Place.Name != j.Place.Name || p.event(j.ID, 2) != secretEvent {
			t.Errorf("%+v", back)
		}
		offers(record.OfferRestored)
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

// TestAJobThatStartsWhereItWaitsIsAssignedToNobody: its syncer says so while a control plane assigns it, or a moment before.
func TestAJobThatStartsWhereItWaitsIsAssignedToNobody(t *testing.T) {
	for name, point := range map[string]string{"meanwhile": "controlplane.before_job_assign", "before": "controlplane.before_job_take_back"} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				var happens atomic.Pointer[func()]
				w := newJobWorld(t, func(c *controlplane.Config) {
					c.FailPoint = func(at string) {
						if at == point {
							if now := happens.Swap(nil); now != nil {
								(*now)()
							}
						}
					}
				})
				w.full("a")
				c, id := w.clusters["c"], uuid.NewString()
				c.offers("grayifyr2", id, "its-name", record.OfferWaiting)
				w.answers(c, id, record.OfferFreeze)
				w.full("b")
				c.offers("grayifyr2", id, "its-name", record.OfferFrozen)
				w.exists(id)
				starts := func() { c.offers("grayifyr2", id, "its-name", record.OfferStarted) }
				room := func() { w.clusters["b"].has(4000); <-time.After(10 * time.Second) }
				if name == "before" {
					happens.Store(&room)
					starts()
				} else {
					happens.Store(&starts)
					w.clusters["b"].has(4000)
				}
				if j := w.becomes(id, func(j *jobs.Job) bool { return j.State.Ended() || j.State == record.JobAssigned }); j.State != record.JobReturned || j.Attempt != 0 {
					t.Errorf("%+v", j)
				}
			})
		})
	}
}

// TestAJobThatIsCancelledWhenItIsResumedWhereItWaitsDoesNotRunOn: a client of its Kubernetes resumes the Job. Whichever
// is first, the cancel or what the syncer says of the Job, its syncer is asked to end it.
func TestAJobThatIsCancelledWhenItIsResumedWhereItWaitsDoesNotRunOn(t *testing.T) {
	for _, when := range []string{"before", "meanwhile", "after"} {
		t.Run(when, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				var happens atomic.Pointer[func()]
				w := newJobWorld(t, func(c *controlplane.Config) {
					c.FailPoint = func(point string) {
						if point == "controlplane.before_job_cancel" {
							if now := happens.Swap(nil); now != nil {
								(*now)()
							}
						}
					}
				})
				p, j, offers := w.asksToFreeze()
				w.full("b")
				offers(record.OfferFrozen)
				w.is(j.ID, record.JobQueued)
				resumes := func() { offers(record.OfferStarted) }
				switch when {
				case "before":
					resumes()
				case "meanwhile":
					happens.Store(&resumes)
				}
				if _, err := w.Jobs.Cancel(t.Context(), admin, jobs.Order{Job: j.ID}); err != nil {
					t.Fatal(err)
				}
				if when == "after" {
					if a := p.answered(j.ID); a == nil || a.Answer != record.OfferRelease || !a.Cancelled {
						t.Errorf("it is answered %+v", a)
					}
					w.is(j.ID, record.JobCancelled)
					return
				}
				if all := p.standing(); len(all) != 1 || all[0].Attempt != 2 || !all[0].Cancel || !all[0].Posted {
					t.Errorf("its syncer is asked %+v", all)
				}
				p.says(j.ID, 2, record.JobRunning, func(r *record.JobReport) { r.Found = true })
				w.is(j.ID, record.JobRunning)
				p.says(j.ID, 2, record.JobCancelled)
				w.is(j.ID, record.JobCancelled)
			})
		})
	}
}

// TestAJobThatIsCancelledWhileItIsFrozenGoesNowhere: its syncer was asked to freeze the Job, and then to end it.
func TestAJobThatIsCancelledWhileItIsFrozenGoesNowhere(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		p, j, offers := w.asksToFreeze()
		if _, err := w.Jobs.Cancel(t.Context(), admin, jobs.Order{Job: j.ID}); err != nil {
			t.Fatal(err)
		}
		offers(record.OfferFrozen)
		w.becomes(j.ID, func(j *jobs.Job) bool { return j.State == record.JobCancelled && j.Attempt == 1 })
		w.answers(p, j.ID, record.OfferRelease)
		if a := p.answered(j.ID); !a.Cancelled {
			t.Errorf("its syncer is told %+v", a)
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

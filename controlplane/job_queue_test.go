package controlplane_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// standingOf lists the services that have an attempt at a cluster, and how many.
func (p *fakeSyncer) standingOf(w *world) (places int, of map[string]int) {
	p.t.Helper()
	of = map[string]int{}
	for _, a := range p.standing() {
		j, err := w.Jobs.Get(p.t.Context(), admin, a.Job)
		if err != nil {
			p.t.Fatal(err)
		}
		of[j.Service+" by "+j.By]++
		places++
	}
	return places, of
}

// The queue of one sender, however long, holds nobody else's job up: of the places that there
// are he has half while another one waits, and all when he is alone.
func TestTheQueueOfOneSenderHoldsNobodyUp(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		ann := identity.Caller{Subject: "ann"}
		if _, err := w.Federations.CreateService(t.Context(), admin, send(t, strings.Replace(other, "{", `{"visibility":"public",`, 1))); err != nil {
			t.Fatal(err)
		}
		w.full("a", "b", "c")
		for range 40 {
			w.submit(func(r *jobs.Request) { r.Service = "otherr0" })
		}
		for range 2 {
			if _, err := w.Jobs.Submit(t.Context(), ann, jobs.Request{Service: "otherr0", Event: []byte(secretEvent)}); err != nil {
				t.Fatal(err)
			}
		}
		b := w.clusters["b"]
		b.has(2000) // four places
		w.eventually(func() bool { places, _ := b.standingOf(w); return places == 4 })
		if _, of := b.standingOf(w); of["otherr0 by ann"] != 2 {
			t.Errorf("of four places: %v", of)
		}
		b.has(3000) // hers have places: the rest is his
		w.eventually(func() bool { places, _ := b.standingOf(w); return places == 6 })
	})
}

// other is a federation like that of body.
var other = strings.ReplaceAll(body, "grayify", "other")

// The same holds between the federations of one owner: the older queue takes its turns.
func TestTheQueueOfOneFederationHoldsNoOtherUp(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		if _, err := w.Federations.CreateService(t.Context(), admin, send(t, other)); err != nil {
			t.Fatal(err)
		}
		w.full("a", "b", "c")
		for range 40 {
			w.submit()
		}
		late := w.submit(func(r *jobs.Request) { r.Service = "otherr0" })
		w.clusters["b"].has(1000) // two places
		w.eventually(func() bool { places, _ := w.clusters["b"].standingOf(w); return places == 2 })
		if j := w.is(late.ID, record.JobAssigned); j.Place.ClusterID != "b" {
			t.Errorf("%+v", j)
		}
	})
}

// Why a job waits is told while the queues of others are long, and at once.
func TestWhyAJobWaitsIsToldBehindALongQueue(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("a", "b", "c")
		for range 60 {
			w.submit()
		}
		last := w.submit()
		j := w.becomes(last.ID, func(j *jobs.Job) bool { return j.Reason == record.JobNoCandidate })
		if !strings.Contains(j.Message, "NoRoom") {
			t.Errorf("it says %q", j.Message)
		}
	})
}

// A cluster that cannot measure what it has free any more gets no jobs, whatever it had.
func TestAClusterThatCannotMeasureGetsNoJobs(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		for id, p := range w.clusters {
			if id != "b" {
				p.has(1)
			}
		}
		kv, err := w.store.Get(t.Context(), record.CapacityKey("b"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := store.Decode[record.Capacity](kv)
		if err != nil {
			t.Fatal(err)
		}
		c.FailingSince = new(record.At(time.Now()))
		w.clusters["b"].write(record.CapacityKey("b"), c)
		j := w.submit()
		if got := w.becomes(j.ID, func(j *jobs.Job) bool { return j.Reason == record.JobNoCandidate }); !strings.Contains(got.Message, "b/grayifyr1 NoCapacity") {
			t.Errorf("it says %q", got.Message)
		}
		c.FailingSince = nil
		w.clusters["b"].write(record.CapacityKey("b"), c)
		if _, at := w.at(j.ID); at.Place.ClusterID != "b" {
			t.Errorf("%+v", at.Place)
		}
	})
}

package controlplane_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
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

// public is a federation like that of body, to which others may send jobs, too.
func public(name, cpu string) string {
	return strings.NewReplacer("grayify", name, "{\"name\"", "{\"visibility\":\"public\",\"name\"", `"cpu":"0.5"`, `"cpu":"`+cpu+`"`).Replace(body)
}

// A user whose jobs wait for a member that is away is not the one with the fewest jobs for ever:
// what counts is what he has where there is room.
func TestJobsAtAMemberThatIsAwayHoldNobodyUp(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		if _, err := w.Federations.CreateService(t.Context(), admin, send(t, public("other", "0.5"))); err != nil {
			t.Fatal(err)
		}
		w.full("a", "b", "c")
		w.clusters["c"].disconnect()
		for range 20 {
			w.submit(func(r *jobs.Request) { r.Service = "otherr0" })
		}
		b := w.clusters["b"]
		b.has(1000) // two places for his
		w.eventually(func() bool { places, _ := b.standingOf(w); return places == 2 })
		hers, err := w.Jobs.Submit(t.Context(), identity.Caller{Subject: "ann"}, jobs.Request{Service: "otherr0", Event: []byte(secretEvent)})
		if err != nil {
			t.Fatal(err)
		}
		b.has(1500) // and a third one
		w.eventually(func() bool { places, _ := b.standingOf(w); return places == 3 })
		if j, err := w.Jobs.Get(t.Context(), admin, hers.ID); err != nil || j.State != record.JobAssigned {
			t.Errorf("her first job is %+v, %v", j, err)
		}
	})
}

// Of two users the one whose jobs take twice as much gets half as many places, and the one with
// twice the weight twice as much.
func TestUsersShareAClusterByWhatTheirJobsTake(t *testing.T) {
	for name, test := range map[string]struct {
		weights map[string]float64
		want    map[string]int
	}{
		"equal":    {nil, map[string]int{"bigr0 by cluster_admin": 4, "smallr0 by ann": 8}},
		"weighted": {map[string]float64{"ann": 3}, map[string]int{"bigr0 by cluster_admin": 2, "smallr0 by ann": 12}},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newJobWorld(t, func(c *controlplane.Config) { c.JobWeights.Accounts = test.weights })
				for _, service := range []string{public("big", "1"), public("small", "0.5")} {
					if _, err := w.Federations.CreateService(t.Context(), admin, send(t, service)); err != nil {
						t.Fatal(err)
					}
				}
				w.full("a", "b", "c")
				for range 20 {
					w.submit(func(r *jobs.Request) { r.Service = "bigr0" })
					if _, err := w.Jobs.Submit(t.Context(), identity.Caller{Subject: "ann"}, jobs.Request{Service: "smallr0", Event: []byte(secretEvent)}); err != nil {
						t.Fatal(err)
					}
				}
				w.clusters["b"].has(8000)
				w.eventually(func() bool {
					_, of := w.clusters["b"].standingOf(w)
					return maps.Equal(of, test.want)
				})
			})
		})
	}
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
		var message string
		w.eventually(func() bool {
			j, err := w.Jobs.Get(t.Context(), admin, last.ID)
			if err != nil {
				t.Fatal(err)
			}
			message = j.Message
			return j.Reason == record.JobNoCandidate
		})
		if !strings.Contains(message, "60 of its jobs wait before it") || !strings.Contains(message, "NoRoom") {
			t.Errorf("it says %q", message)
		}
		// The first of them alone is written to for that.
		if kv, err := w.store.Get(t.Context(), record.JobKey(last.ID)); err != nil || kv.ModRevision != kv.CreateRevision {
			t.Errorf("its record was written again: %+v, %v", kv, err)
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

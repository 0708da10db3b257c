package controlplane_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestJobsOnManyLostClustersAreWithdrawnTogether: the clusters went while no control
// plane looked, so that they are all lost in the same moment. What their jobs compare is
// too much for one transaction.
func TestJobsOnManyLostClustersAreWithdrawnTogether(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		const n = 33 // each job compares itself, its report, its session and what is promised there
		var far []*fakeSyncer
		var members []string
		for i := range n {
			id := fmt.Sprintf("far%02d", i)
			far = append(far, w.addCluster(id))
			if i > 0 {
				members = append(members, fmt.Sprintf(`{"type":"oscar","cluster_id":%q,"service_name":"wide%d"}`, id, i))
			}
		}
		wide := fmt.Sprintf(`{"name":"wide0","cluster_id":"far00","image":"i","cpu":"0.5","memory":"0.5Gi","script":"s",
"federation":{"topology":"mesh","delegation":"random","members":[%s]}}`, strings.Join(members, ","))
		if _, err := w.Federations.CreateService(t.Context(), admin, send(t, wide)); err != nil {
			t.Fatal(err)
		}
		for _, p := range far {
			p.has(500) // room for one
		}
		var ids []string
		for range far {
			ids = append(ids, w.submit(func(r *jobs.Request) { r.Service = "wide0" }).ID)
		}
		places := map[string]bool{}
		for _, id := range ids {
			p, _ := w.at(id)
			places[p.cluster] = true
		}
		if len(places) != n {
			t.Fatalf("the jobs are on %d clusters", len(places))
		}
		w.stop()
		for _, p := range far {
			p.disconnect()
		}
		w.ControlPlane = w.second()
		for _, id := range ids {
			if j := w.is(id, record.JobQueued); len(j.Attempts) != 1 || j.Attempts[0].Reason != record.JobClusterLost {
				t.Errorf("%+v", j)
			}
		}
		if left := w.keys(record.ReservedPrefix); len(left) != 0 {
			t.Errorf("still promised: %v", left)
		}
	})
}

// TestLargeJobsThatWereFrozenMeanwhileAreTaken: their events together are more than a
// transaction takes.
func TestLargeJobsThatWereFrozenMeanwhileAreTaken(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("c")
		w.clusters["a"].has(64_000)
		w.clusters["b"].has(64_000)
		c, large := w.clusters["c"], strings.Repeat("x", oscar.MaxEventBytes)
		var ids []string
		for range 16 { // of 128 KiB each, sealed
			id := uuid.NewString()
			ids = append(ids, id)
			c.offers("grayifyr2", id, "grayifyr2-"+id, record.OfferWaiting)
			w.answers(c, id, record.OfferFreeze)
		}
		w.stop()
		for _, id := range ids {
			c.offers("grayifyr2", id, "grayifyr2-"+id, record.OfferFrozen, func(event *string, _ *record.Offer) { *event = large })
		}
		w.ControlPlane = w.second()
		for _, id := range ids {
			w.exists(id)
			if p, _ := w.at(id); p == c || p.event(id, 1) != large {
				t.Errorf("job %s is on %s with another event", id, p.cluster)
			}
		}
	})
}

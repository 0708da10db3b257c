package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestAMemberThatTakesAnothersPlaceIsRefusedItsBucket: the bucket that the first
// one's PUT made on the cluster is the federation's, also for the service that is
// named instead, at once or when the first is long gone; not for another federation.
func TestAMemberThatTakesAnothersPlaceIsRefusedItsBucket(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		ours := append(slices.Clone(names), "second", "third")
		w := newWorld(t, func(o *world.Options) { o.Names = ours })
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		// A worker's POST makes no bucket; its first PUT does.
		bigger := world.Service(t, strings.Replace(body, "0.5Gi", "1Gi", 1))
		if _, err := w.CP.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: bigger, Wait: limit}); err != nil {
			t.Fatal(err)
		}
		sim := w.Cluster(b).Sim
		bucket, ok := sim.Bucket(names[0])
		if !ok || len(bucket.Tags) > 0 {
			t.Fatalf("the bucket on %s is %+v; want one that nobody is written on", b, bucket)
		}
		sim.PutBucket(names[0], "in/mine")

		change := func(r federations.ReplicasRequest) {
			t.Helper()
			r.Wait = limit
			if _, err := w.CP.Federations.ChangeReplicas(t.Context(), admin, names[0], r); err != nil {
				t.Fatal(err)
			}
		}
		stands := func() []string {
			return slices.DeleteFunc(sim.Services(), func(name string) bool { return !slices.Contains(ours, name) })
		}
		standsAlone := func(want string) {
			t.Helper()
			w.Eventually("only "+want+" stands", func() bool { return slices.Equal(stands(), []string{want}) })
			after, ok := sim.Bucket(names[0])
			if !ok || !slices.Contains(after.Objects, "in/mine") {
				t.Errorf("the bucket is %+v", after)
			}
		}
		on := func(service string) oscar.Member {
			return oscar.Member{Type: "oscar", ClusterID: b, ServiceName: service}
		}
		change(federations.ReplicasRequest{Replace: []federations.Replacement{{From: on(names[1]), To: on("second")}}})
		standsAlone("second")

		change(federations.ReplicasRequest{Remove: []oscar.Member{on("second")}})
		w.Eventually("it is gone", func() bool { return len(stands()) == 0 })
		change(federations.ReplicasRequest{Add: []oscar.Member{on("third")}})
		standsAlone("third")

		gone, err := w.CP.Federations.DeleteService(t.Context(), admin, names[0], federations.DeleteOptions{Wait: limit, Data: "delete"})
		if err != nil {
			t.Fatal(err)
		}
		if kept, ok := sim.Bucket(names[0]); !ok || !slices.Contains(kept.Objects, "in/mine") {
			t.Errorf("the last one had not made the bucket, and it went with it: %+v", gone)
		}
	})
}

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

// TestAMemberThatTakesAnothersPlaceHasItsBuckets: those that the first one's POST made
// on the cluster, and its PUT without tags, are the federation's, also for the service that is
// named instead, at once or when the first is long gone; not for another federation.
func TestAMemberThatTakesAnothersPlaceHasItsBuckets(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		ours := append(slices.Clone(names), "second", "third")
		w := newWorld(t, func(o *world.Options) { o.Names = ours })
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		const more = "grayify-more"
		bigger := world.Service(t, strings.Replace(body, `"output":[`, `"output":[{"storage_provider":"minio.default","path":"`+more+`/out"},`, 1))
		if _, err := w.CP.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: bigger, Wait: limit}); err != nil {
			t.Fatal(err)
		}
		sim := w.Cluster(b).Sim
		for bucket, from := range map[string]string{names[0]: names[1], more: ""} {
			if v, ok := sim.Bucket(bucket); !ok || v.Tags["from_service"] != from {
				t.Fatalf("the bucket %s on %s is %+v", bucket, b, v)
			}
			sim.PutBucket(bucket, "in/mine")
		}
		keeps := func(told any) {
			t.Helper()
			for _, bucket := range []string{names[0], more} {
				if after, ok := sim.Bucket(bucket); !ok || !slices.Contains(after.Objects, "in/mine") {
					t.Errorf("the bucket %s is %+v: %+v", bucket, after, told)
				}
			}
		}

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
			keeps(nil)
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
		keeps(gone) // the last one had not made them
	})
}

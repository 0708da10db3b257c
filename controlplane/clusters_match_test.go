package controlplane_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestAClusterThatWasChangedSinceIsNotOverwritten nor removed by who has seen an
// older registration.
func TestAClusterThatWasChangedSinceIsNotOverwritten(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		old, err := w.Clusters.Get(t.Context(), admin, "c")
		if err != nil {
			t.Fatal(err)
		}
		spec := clusters.Spec{ClusterID: "c", Endpoint: "https://first.example.org", IfMatch: old.Revision}
		now, err := w.Clusters.Update(t.Context(), admin, spec)
		if err != nil || now.Revision <= old.Revision {
			t.Fatalf("%+v %v", now, err)
		}
		spec.Endpoint = "https://second.example.org"
		if _, err := w.Clusters.Update(t.Context(), admin, spec); codeOf(t, err) != fault.CodeConflict {
			t.Error(err)
		}
		if _, err := w.Clusters.Remove(t.Context(), admin, "c", clusters.RemoveOptions{IfMatch: old.Revision}); codeOf(t, err) != fault.CodeConflict {
			t.Error(err)
		}
		got, err := w.Clusters.Get(t.Context(), admin, "c")
		if err != nil || got.Endpoint != "https://first.example.org" || got.State != "active" || got.Revision != now.Revision {
			t.Errorf("%+v %v", got, err)
		}
		if _, err := w.Clusters.Remove(t.Context(), admin, "c", clusters.RemoveOptions{IfMatch: now.Revision}); err != nil {
			t.Error(err)
		}
	})
}

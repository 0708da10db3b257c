package controlplane_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// images replaces the image of every definition in the store.
var images = regexp.MustCompile(`"image":"[^"]*"`)

// TestADefinitionThatIsRefusedNowDoesNotKeepItsMembers: an older version took it. It cannot be created any more, and what
// takes members away is not about it.
func TestADefinitionThatIsRefusedNowDoesNotKeepItsMembers(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		for _, key := range w.keys(record.HistoryPrefix) {
			kv, err := w.store.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			h, err := store.Decode[record.History](kv)
			if err != nil {
				t.Fatal(err)
			}
			if !images.Match(h.Service) {
				t.Fatalf("no image in %s", h.Service)
			}
			h.Service = images.ReplaceAll(h.Service, []byte(`"image":"My Image:1"`))
			w.put(key, h)
		}
		if _, err := w.changeReplicas(federations.ReplicasRequest{Remove: []oscar.Member{member("b", "grayifyr1")}}); err != nil {
			t.Error("a member is removed:", err)
		}
		if res, err := w.Clusters.Remove(t.Context(), admin, "c", clusters.RemoveOptions{Wait: time.Minute}); err != nil || res.Pending != 0 {
			t.Error("a cluster is removed:", res, err)
		}
		if _, err := w.changeReplicas(federations.ReplicasRequest{Add: []oscar.Member{member("b", "grayifyr1")}}); codeOf(t, err) != fault.CodeInvalid {
			t.Error("a member is added:", err)
		}
	})
}

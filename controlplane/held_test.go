package controlplane_test

import (
	"math"
	"strings"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/recovery"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestAGenerationThatCannotBeHoldsUpItsOwnClusterAlone: after a restore a hostile member says that it has the largest one. What is
// decided about another member is done.
func TestAGenerationThatCannotBeHoldsUpItsOwnClusterAlone(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		w.restore()
		for cluster, generation := range map[string]int64{"b": 2, "c": math.MaxInt64} {
			w.clusters[cluster].does(func(s string, d *record.Desired) *record.Observed {
				if d.Covers("", generation) {
					return yes(s, d)
				}
				return &record.Observed{Phase: record.PhaseHeld, Reason: record.ReasonAheadOfDesired, Held: &record.Held{Kind: record.HeldAhead, Generation: generation}}
			})
		}
		w.eventually(func() bool {
			all, err := w.Recovery.Differences(t.Context(), admin)
			return err == nil && len(all.Differences) == 2
		})
		keep := func(cluster, service string) error {
			_, err := w.Recovery.Resolve(t.Context(), admin, recovery.ResolveRequest{ClusterID: cluster, ServiceName: service, Keep: v1.KeepStore})
			return err
		}
		if err := keep("c", "grayifyr2"); codeOf(t, err) != fault.CodeFailedPrecondition || !strings.Contains(err.Error(), "look at the service on c") {
			t.Error(err)
		}
		if err := keep("b", "grayifyr1"); err != nil {
			t.Error(err)
		}
		all, err := w.Recovery.Differences(t.Context(), admin)
		if err != nil || len(all.Differences) != 1 || all.Differences[0].ClusterID != "c" || all.Differences[0].StoreGeneration != 3 {
			t.Errorf("%+v %v", all, err)
		}
	})
}

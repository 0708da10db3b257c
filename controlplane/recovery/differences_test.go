package recovery

import (
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// TestWhatATombstoneOrdersIsTold: what keeping the store's side does to a service that is ahead of its tombstone.
func TestWhatATombstoneOrdersIsTold(t *testing.T) {
	for want, d := range map[string]record.Desired{
		"it is deleted, as ordered; its buckets stay":                       {},
		"it is deleted, as ordered, with the buckets that were made for it": {Data: record.DataDelete},
		"it leaves its federation, as ordered, and runs on with its data":   {Keep: record.KeepRelease},
	} {
		d.Intent = record.IntentDelete
		got := differenceOf(&record.Federation{}, view.ReplicaState{Desired: &d, Observed: &record.Observed{}, At: record.Member{}}, record.Held{Kind: record.HeldAhead})
		if got.KeepStore != want || got.KeepCluster != "" || !got.tombstone {
			t.Errorf("%+v: %q, and %q", d, got.KeepStore, got.KeepCluster)
		}
	}
}

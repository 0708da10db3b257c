package jobs

import (
	"fmt"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// TestManyOffersAreLookedAtInParts: a cluster that offers all that it may holds up nobody else's jobs, and none of its own for
// ever.
func TestManyOffersAreLookedAtInParts(t *testing.T) {
	kvs := make([]store.KV, 0, 4*offersAtOnce)
	for i := range cap(kvs) {
		state := record.OfferFrozen
		if i%2 == 0 {
			state = record.OfferWaiting
		}
		text, err := record.Encode(record.Offer{V: record.Version, State: state, Federation: "f", Service: "s", UID: "u", Name: "n"})
		if err != nil {
			t.Fatal(err)
		}
		kvs = append(kvs, store.KV{Key: record.OfferKey("c", fmt.Sprint("job-", i)), Value: text, ModRevision: int64(i + 1)})
	}
	v, seen := view.Of(kvs...), map[string]bool{}
	for len(seen) < len(kvs)/2 {
		ids := timedOffers(v)
		if len(ids) != offersAtOnce {
			t.Fatalf("%d at once", len(ids))
		}
		for _, id := range ids {
			seen[id] = true
		}
	}
}

package e2e_test

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestAnIdleFederationWritesNothing: in an hour of full compares and renewed leases, nothing is
// written but the time that the control planes agree on. The same over a hundred clusters is part
// of the figures.
func TestAnIdleFederationWritesNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Minute) // what the creation left to be told is told
		before := w.Revision()
		<-time.After(time.Hour)
		present, after, err := w.Store.List(t.Context(), record.Root)
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range present {
			if kv.ModRevision > before && kv.Key != record.ElapsedKey {
				t.Errorf("%s was written, and nobody asked for anything: %s", kv.Key, kv.Value)
			}
		}
		// The time is written at the first sweep after it is due.
		if most := int64(time.Hour / view.TickMost); after == before || after-before > most {
			t.Errorf("%d revisions were written; want one for each %s at most", after-before, view.TickMost)
		}
	})
}

package jobs

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// offersOf has a federation on three clusters, of which the first one offers n Jobs.
func offersOf(t testing.TB, n int, state func(i int) record.OfferState) *view.View {
	t.Helper()
	kvs, service := queues{3, 1, 0, 100}.records(t), "federation-000000"
	for i := range n {
		text, err := record.Encode(record.Offer{V: record.Version, State: state(i), Federation: service, Service: service, UID: service + "0", Name: "n"})
		if err != nil {
			t.Fatal(err)
		}
		kvs = append(kvs, store.KV{Key: record.OfferKey("cluster-0000", record.NewUID()), Value: text, ModRevision: int64(1000 + i)})
	}
	return view.Of(kvs...)
}

// TestManyOffersAreLookedAtInParts: a cluster that offers all that it may holds up nobody else's jobs, and none of its own for
// ever.
func TestManyOffersAreLookedAtInParts(t *testing.T) {
	const all = 4 * offersAtOnce
	v, seen := offersOf(t, all, func(i int) record.OfferState {
		return []record.OfferState{record.OfferWaiting, record.OfferFrozen}[i%2]
	}), map[string]bool{}
	for len(seen) < all/2 {
		ids := timedOffers(v)
		if len(ids) > offersAtOnce {
			t.Fatalf("%d at once", len(ids))
		}
		for _, id := range ids {
			seen[id] = true
		}
	}
}

// TestManyOffersCostARoundNothing: no other member has room, so that none is answered.
func TestManyOffersCostARoundNothing(t *testing.T) {
	waiting := func(int) record.OfferState { return record.OfferWaiting }
	few, many := offersOf(t, offersAtOnce, waiting), offersOf(t, 20*offersAtOnce, waiting)
	need := &Needs{generation: 1, request: delegation.Request{CPU: 500, Memory: 256 << 20}}
	look := func(v *view.View) *round {
		p := newRound(&clock.FirstSeen{}, time.Now(), Weights{}, func(*record.Federation) *Needs { return need })
		p.fill(v)
		p.answerOffers(v)
		return p
	}
	if p := look(many); len(p.notes) != 0 || p.choices != 1 {
		t.Errorf("%d answers, and %d times a member was looked for", len(p.notes), p.choices)
	}
	cost := func(v *view.View) float64 { return testing.AllocsPerRun(5, func() { look(v) }) }
	if a, b := cost(few), cost(many); b > a+a/10+10 {
		t.Errorf("%.0f allocations for %d offers, and %.0f for %d", a, offersAtOnce, b, 20*offersAtOnce)
	}
}

// TestAnOfferAmongManyIsAnswered: the others are of a federation that has room nowhere.
func TestAnOfferAmongManyIsAnswered(t *testing.T) {
	kvs := queues{3, 2, 0, 100}.records(t)
	offer := func(federation, uid string) {
		text, err := record.Encode(record.Offer{V: record.Version, State: record.OfferWaiting, Federation: federation, Service: federation, UID: uid, Name: "n"})
		if err != nil {
			t.Fatal(err)
		}
		kvs = append(kvs, store.KV{Key: record.OfferKey("cluster-0001", record.NewUID()), Value: text, ModRevision: int64(len(kvs) + 1)})
	}
	const large, small = "federation-000000", "federation-000001"
	for range 3 * offersAtOnce {
		offer(large, large+"1")
	}
	offer(small, small+"0")
	meta, err := record.Encode(record.Meta{V: record.Version})
	if err != nil {
		t.Fatal(err)
	}
	kvs = append(kvs, store.KV{Key: record.MetaKey, Value: meta, ModRevision: int64(len(kvs) + 1)})
	v := view.Of(kvs...)
	needs := func(f *record.Federation) *Needs {
		cpu := map[string]int64{large: 500, small: 50}[f.UID]
		return &Needs{generation: 1, request: delegation.Request{CPU: cpu, Memory: 256 << 20}}
	}
	for {
		p := newRound(&clock.FirstSeen{}, time.Now(), Weights{}, needs)
		p.fill(v)
		if p.answerOffers(v); len(p.notes) > 0 {
			return
		}
	}
}

package offers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestTheIndexOfOffersSaysWhatALookAtAllWould: after each of many writes, of Jobs that
// are offered twice and of records that cannot be read, too.
func TestTheIndexOfOffersSaysWhatALookAtAllWould(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const cluster, seed, jobs, ids = "a", 7, 4, 6
		st := virtual.Open(t)
		mirror := st.NewMirror(store.MirrorConfig{Prefixes: []string{record.ObservedPrefix(cluster)}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = mirror.Run(ctx)
		}()
		defer func() { cancel(); <-done }()
		<-mirror.Synced()
		x := newIndex(mirror)
		defer x.close()

		slow := func(view *store.MirrorView, key kube.JobKey) (id string, standing int) {
			for kv := range view.Prefix(record.OffersPrefix(cluster)) {
				standing++
				if o, err := store.Decode[record.Offer](kv); err == nil && locationOf(o) == key {
					id = record.ParseKey(kv.Key).Name
				}
			}
			return id, standing
		}
		random := rand.New(rand.NewPCG(seed, seed))
		found, most := 0, 0
		for step := range 200 {
			id := fmt.Sprintf("j%d", random.IntN(ids))
			key := record.OfferKey(cluster, id)
			name := fmt.Sprintf("job-%d", random.IntN(jobs))
			kind := random.IntN(6)
			res, err := st.Update(t.Context(), store.Update{Keys: []string{key}, Build: func(_ store.View, tx *store.Txn) error {
				switch kind {
				case 0, 1:
					tx.Delete(key)
				case 2:
					tx.PutBytes(key, []byte(`{"name":`))
				default:
					tx.Put(key, record.Offer{V: record.Version, State: record.OfferWaiting, Namespace: "n", Name: name, Epoch: fmt.Sprint(step)})
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			if step%5 > 2 {
				continue // several changes are taken at once
			}
			if err := mirror.Wait(t.Context(), res.Revision); err != nil {
				t.Fatal(err)
			}
			for i := range jobs {
				job := kube.JobKey{Namespace: "n", Name: fmt.Sprintf("job-%d", i)}
				view, id, standing := x.at(job)
				wantID, want := slow(view, job)
				if id != wantID || standing != want {
					t.Fatalf("step %d: %s is offered as %q of %d, want %q of %d", step, job, id, standing, wantID, want)
				}
				if most = max(most, len(x.ids[job])); id != "" {
					found++
				}
			}
		}
		if found == 0 || most < 2 {
			t.Errorf("nothing was tried: %d were found, and %d offers of one Job", found, most)
		}
	})
}

func TestJobsOfAServiceAreLookedAtAgain(t *testing.T) {
	t.Parallel()
	s := newSeenJobs()
	key := func(name string) kube.JobKey { return kube.JobKey{Namespace: "n", Name: name} }
	for _, j := range []struct{ name, service string }{{"a", "one"}, {"b", "one"}, {"c", "two"}, {"d", "two"}, {"e", "one"}} {
		s.note(key(j.name), &kube.Job{UID: j.name, Service: j.service})
	}
	s.note(key("b"), nil)
	s.note(key("c"), &kube.Job{UID: "c", Service: "two", Ended: true})
	s.note(key("e"), &kube.Job{UID: "again", Service: "two"})
	names := func(keys []kube.JobKey) []string {
		out := []string{}
		for _, k := range keys {
			out = append(out, k.Name)
		}
		slices.Sort(out)
		return out
	}
	for service, want := range map[string][]string{"one": {"a"}, "two": {"d", "e"}, "none": {}} {
		if got := names(s.ofService(service)); !slices.Equal(got, want) {
			t.Errorf("Jobs of %s: %v, want %v", service, got, want)
		}
	}
	if got := names(s.all()); !slices.Equal(got, []string{"a", "d", "e"}) {
		t.Error("not all Jobs are looked at")
	}
	for _, name := range []string{"a", "d", "e"} {
		s.note(key(name), nil)
	}
	if len(s.of) != 0 {
		t.Errorf("%v is left of services without Jobs", s.of)
	}
}

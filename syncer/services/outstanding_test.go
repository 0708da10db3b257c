package services

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/syncer/session"
	"github.com/oscarfed/oscarfed/test/await"
)

// withMirror gives a test the services of a cluster and a way to write their records, of which the mirror then has all.
func withMirror(t *testing.T, test func(s *Services, write func(func(tx *store.Txn)) *store.MirrorView)) {
	await.InVirtualTime(t, func(t *testing.T) {
		const cluster = "a"
		st := virtual.Open(t)
		mirror := st.NewMirror(store.MirrorConfig{Prefixes: []string{record.DesiredServicesPrefix(cluster), record.ObservedPrefix(cluster)}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = mirror.Run(ctx)
		}()
		defer func() { cancel(); <-done }()
		<-mirror.Synced()
		s := &Services{session: &session.Session{Cluster: &session.Cluster{ID: cluster, Mirror: mirror, Log: slog.New(slog.DiscardHandler)}}}
		test(s, func(fill func(tx *store.Txn)) *store.MirrorView {
			t.Helper()
			res, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error { fill(tx); return nil }})
			if err != nil {
				t.Fatal(err)
			}
			if err := mirror.Wait(t.Context(), res.Revision); err != nil {
				t.Fatal(err)
			}
			return mirror.Snapshot()
		})
	})
}

// What is outstanding is what a look at each record would say, after each of many writes.
func TestWhatIsOutstandingIsWhatEachRecordSays(t *testing.T) {
	withMirror(t, func(s *Services, write func(func(tx *store.Txn)) *store.MirrorView) {
		random := rand.New(rand.NewPCG(7, 7))
		var view *store.MirrorView
		found := 0
		for step := range 400 {
			name := fmt.Sprintf("svc-%d", random.IntN(6))
			desired, observed := record.DesiredServiceKey("a", name), record.ObservedServiceKey("a", name)
			uid := []string{"first", "second"}[random.IntN(2)]
			var revision int64
			if view != nil {
				kv, _ := view.KV(desired)
				revision = kv.ModRevision
			}
			kind := random.IntN(9)
			view = write(func(tx *store.Txn) {
				switch kind {
				case 0:
					tx.Delete(desired)
				case 1:
					tx.Delete(observed)
				case 2:
					tx.PutBytes(desired, []byte(`{"intent":`))
				case 3:
					tx.PutBytes(observed, []byte(`{"uid":`))
				case 4, 5:
					intent := []record.Intent{record.IntentPrepare, record.IntentApply, record.IntentDelete}[random.IntN(3)]
					tx.Put(desired, record.Desired{V: 1, UID: uid, Intent: intent, Generation: int64(step)})
				default:
					answer := []string{record.VoteYes, record.VoteNo}[random.IntN(2)]
					tx.Put(observed, record.Observed{
						V: 1, UID: uid, DesiredRevision: revision, Vote: &record.Vote{Answer: answer, Revision: revision}, ObservedGeneration: int64(step),
					})
				}
			})
			want := map[string]bool{}
			for kv := range view.Prefix(record.DesiredServicesPrefix("a")) {
				if name := record.ParseKey(kv.Key).Name; s.isOutstanding(view, name, kv) {
					want[name] = true
				}
			}
			found += len(want)
			if diff := cmp.Diff(want, s.outstanding(view)); diff != "" {
				t.Fatalf("step %d: %s", step, diff)
			}
		}
		if found < 200 {
			t.Errorf("only %d were outstanding", found)
		}
	})
}

// A burst of votes on a cluster with many services decodes each record once. That of a report which cannot be read is seen in
// the log.
func TestARecordIsDecodedOnceForManyVotes(t *testing.T) {
	const standing = 50
	withMirror(t, func(s *Services, write func(func(tx *store.Txn)) *store.MirrorView) {
		log := &await.Output{}
		s.session.Log = slog.New(slog.NewTextHandler(log, nil))
		view := write(func(tx *store.Txn) {
			for i := range standing {
				name := fmt.Sprint("svc-", i)
				tx.Put(record.DesiredServiceKey("a", name), record.Desired{V: 1, UID: name, Intent: record.IntentApply})
				tx.PutBytes(record.ObservedServiceKey("a", name), []byte("{"))
			}
		})
		for range 10 {
			if n := len(s.outstanding(view)); n != standing {
				t.Errorf("%d are outstanding", n)
			}
		}
		view = write(func(tx *store.Txn) { tx.PutBytes(record.ObservedServiceKey("a", "svc-7"), []byte("{{")) })
		s.outstanding(view)
		if n := strings.Count(log.String(), "cannot be read"); n != standing+1 {
			t.Errorf("%d reports were decoded", n)
		}
	})
}

// The services of a federation are those whose records name it, and can be read.
func TestTheServicesOfAFederation(t *testing.T) {
	withMirror(t, func(s *Services, write func(func(tx *store.Txn)) *store.MirrorView) {
		view := write(func(tx *store.Txn) {
			for name, d := range map[string]record.Desired{
				"one": {Federation: "fed"}, "two": {Federation: "fed", Intent: record.IntentDelete}, "of-another": {Federation: "fed-2"},
				"mentions-it": {Federation: "other", Owner: "fed"}, "of-none": {},
			} {
				tx.Put(record.DesiredServiceKey("a", name), d)
			}
			tx.PutBytes(record.DesiredServiceKey("a", "damaged"), []byte(`{"federation":"fed",`))
		})
		got := slices.Sorted(maps.Keys(maps.Collect(s.session.OfFederation(view, "fed"))))
		if !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("%v", got)
		}
		for range s.session.OfFederation(view, "fed") {
			break // it can be left
		}
	})
}

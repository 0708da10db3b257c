package e2e_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// rewrite puts other bytes under a key, past everybody, whatever is written meanwhile.
// With a desired record it touches its federation, as everybody does.
func rewrite(w *world.World, key string, fn func(value []byte) []byte) {
	w.T.Helper()
	keys := []string{key}
	if record.ParseKey(key).Kind == record.KindDesiredService {
		kv, err := w.Store.Get(w.T.Context(), key)
		if err != nil {
			w.T.Fatal(err)
		}
		d, err := store.Decode[record.Desired](kv)
		if err != nil {
			w.T.Fatal(err)
		}
		keys = append(keys, record.FederationKey(d.Federation))
	}
	_, err := w.Store.Update(w.T.Context(), store.Update{Keys: keys, Build: func(v store.View, tx *store.Txn) error {
		for i, key := range keys {
			kv, ok := v.KV(key)
			if !ok {
				continue
			}
			tx.Expect(key)
			if i == 0 {
				kv.Value = fn(kv.Value)
			}
			tx.PutBytes(key, kv.Value)
			tx.Touch(key)
		}
		return nil
	}})
	if err != nil {
		w.T.Fatal(err)
	}
}

// changing says whether records of a kind are ever changed after they were written.
func changing(kind record.Kind) bool {
	switch kind {
	case record.KindMeta, record.KindCluster, record.KindFence, record.KindFederation, record.KindDesiredCluster, record.KindDesiredService,
		record.KindObservedCluster, record.KindObservedService, record.KindCapacity, record.KindJob, record.KindAssignment, record.KindJobReport:
		return true
	default:
		return false
	}
}

// TestAnOrdinaryChangeDropsWhatANewerVersionWrote: every record gets fields of tomorrow at
// every level, and then the use cases of today go over them.
func TestAnOrdinaryChangeDropsWhatANewerVersionWrote(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const d = "oscar-cluster-d"
		w := newWorld(t, func(o *world.Options) {
			o.Clusters = []string{a, b, c, d}
			o.Sim = func(cfg *oscarsim.Config) { cfg.Workload = &oscarsim.Workload{Seed: 1, Min: 1 << 60, Max: 1 << 60} }
		})
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		job := w.Submit(names[0], `{"n":1}`)
		w.AwaitJob(job, record.JobRunning)
		written := map[string]int{}
		keys := w.Keys(record.Root)
		// Orders come last: a report answers the order as it stands.
		slices.SortStableFunc(keys, func(a, b string) int {
			return cmp.Compare(strings.Count(a, "/desired/services/"), strings.Count(b, "/desired/services/"))
		})
		for _, key := range keys {
			if kind := record.ParseKey(key).Kind; changing(kind) {
				rewrite(w, key, func(value []byte) []byte {
					out, planted := storetest.Newer(t, kind, value)
					written[key] = planted
					return out
				})
			}
		}
		w.Eventually("the federation stands", func() bool { return ready(w) })

		s := world.Service(t, strings.Replace(body, "0.5Gi", "1Gi", 1))
		if _, err := w.CP.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: limit}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.CP.Federations.ChangeReplicas(t.Context(), admin, names[0], federations.ReplicasRequest{
			Add: []oscar.Member{{Type: "oscar", ClusterID: d, ServiceName: "grayifyr3"}}, Wait: limit,
		}); err != nil {
			t.Fatal(err)
		}
		for _, paused := range []bool{true, false} {
			if _, err := w.CP.Federations.Pause(t.Context(), admin, names[0], "", "", paused); err != nil {
				t.Fatal(err)
			}
		}
		for _, state := range []string{"cordoned", "paused", "active"} {
			if _, err := w.CP.Clusters.SetState(t.Context(), admin, b, state); err != nil {
				t.Fatal(err)
			}
		}
		w.Cluster(c).Stop()
		w.Cluster(c).Start()
		if _, err := w.CP.Jobs.Cancel(t.Context(), admin, jobs.Order{Job: job}); err != nil {
			t.Fatal(err)
		}
		w.AwaitJob(job, record.JobCancelled)
		w.Eventually("the federation stands again", func() bool { return ready(w) })

		changed := 0
		for key, planted := range written {
			kv, err := w.Store.Get(t.Context(), key)
			if err != nil {
				continue // what ended took its fields along
			}
			if got := bytes.Count(kv.Value, []byte(`"`+storetest.NewerField+`"`)); got < planted {
				t.Errorf("%s has %d of its %d fields: %s", key, got, planted, kv.Value)
			}
			changed++
		}
		if changed < 20 {
			t.Errorf("only %d of %d records are there", changed, len(written))
		}
	})
}

// TestAnOrderOfANewerVersionIsCarriedOutAsAnother: an intent, or a word beside it, that a
// syncer does not know is nothing that it may act upon.
func TestAnOrderOfANewerVersionIsCarriedOutAsAnother(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(o *world.Options) { o.Unguarded = true })
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		key := record.DesiredServiceKey(b, names[1])
		before := w.Cluster(b).Changes()
		for _, words := range []map[string]string{{"intent": "hibernate"}, {"intent": "delete", "keep": "archive"}, {"intent": "delete", "data": "archive"}} {
			var stood []byte
			rewrite(w, key, func(value []byte) []byte {
				var tree map[string]any
				if err := json.Unmarshal(value, &tree); err != nil {
					t.Fatal(err)
				}
				for field, word := range words {
					tree[field] = word
				}
				delete(tree, "v")
				rest, err := record.Encode(tree)
				if err != nil {
					t.Fatal(err)
				}
				stood = append([]byte(`{"v":1,`), rest[1:]...)
				return stood
			})
			last := w.Revision()
			w.Cluster(b).Stop()
			w.Cluster(b).Start() // it looks at everything when it begins
			w.Eventually("the syncer has compared everything", func() bool {
				kv, err := w.Store.Get(t.Context(), record.ObservedClusterKey(b))
				alive, aerr := w.Store.Get(t.Context(), record.SessionKey(b))
				return err == nil && aerr == nil && kv.Key != "" && alive.CreateRevision > last
			})
			w.Eventually("both have said so", func() bool {
				v, err := w.Client.Replicas(t.Context(), names[0], "")
				return err == nil && v.Phase == "degraded" && v.Replicas[0].Status.Reason == string(record.ReasonNewerVersion) &&
					strings.Contains(w.Log.String(), "a newer control plane asks for what this syncer does not know")
			})
			if kv, err := w.Store.Get(t.Context(), key); err != nil || !bytes.Equal(kv.Value, stood) {
				t.Errorf("the order is now %s, error %v", kv.Value, err)
			}
		}
		if after := w.Cluster(b).Changes(); after != before {
			t.Errorf("OSCAR was called for what nobody here understands: %d calls, then %d", before, after)
		}
		if _, err := w.CP.Federations.DeleteService(t.Context(), admin, names[0], federations.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "newer version") {
			t.Errorf("the deletion answers %v", err)
		}
	})
}

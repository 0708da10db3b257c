package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// wrong are values that stand in place of a good one, of every JSON type and some that
// are none.
func wrong() []any {
	return []any{
		nil, true, -1, 1e300, "", "\u202e\x1b[31m", strings.Repeat("x", 200<<10), "9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z",
		[]any{}, []any{nil}, []any{"a", 1}, map[string]any{}, map[string]any{"": nil},
	}
}

// poisons are what a record may be turned into: no JSON at all, other JSON, and the record
// with each of its values, at every depth, replaced by each wrong one.
func poisons(t *testing.T, good []byte) (out [][]byte) {
	t.Helper()
	for _, text := range []string{"", `{"v":1`, "null", "[]", `"ready"`, "7", `{"v":2}`, `{"v":-1}`, `{"v":1}`, `{"v":1e999}`, "\x00\xff\xfe",
		strings.Repeat(`{"v":`, 10_000), strings.Repeat("[", 100_000)} {
		out = append(out, []byte(text))
	}
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(good))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		t.Fatalf("%s: %v", good, err)
	}
	replace(tree, func(any) {}, func() {
		data, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, data)
	})
	return out
}

// replace puts each wrong value in the place of node and of all below it, one at a time,
// calls emit with each, and restores it.
func replace(node any, set func(any), emit func()) {
	for _, value := range wrong() {
		set(value)
		emit()
	}
	set(node)
	switch of := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(of)) {
			replace(of[key], func(value any) { of[key] = value }, emit)
		}
	case []any:
		for i := range of {
			replace(of[i], func(value any) { of[i] = value }, emit)
		}
	}
}

// records are the keys below a prefix with their values, less those that carry a lease.
func records(w *world.World, prefix string) map[string][]byte {
	w.T.Helper()
	out := map[string][]byte{}
	for _, key := range w.Keys(prefix) {
		view, err := w.Store.Read(w.T.Context(), key)
		if err != nil {
			w.T.Fatal(err)
		}
		if kv, ok := view.KV(key); ok && !strings.HasSuffix(key, "/session") {
			out[key] = kv.Value
		}
	}
	return out
}

// overwrite puts a value, whatever stands at the key.
func overwrite(w *world.World, key string, value []byte) {
	w.T.Helper()
	_, err := w.Store.Update(w.T.Context(), store.Update{Keys: []string{key}, Build: func(_ store.View, tx *store.Txn) error {
		tx.PutBytes(key, value)
		return nil
	}})
	if err != nil {
		w.T.Fatalf("%s: %.80q: %v", key, value, err)
	}
}

// swallowed is long enough for every part to have read a record, and to have acted on it.
const swallowed = 50 * time.Millisecond

// poisoned overwrites a record with a poison, and lets every part have it.
func poisoned(w *world.World, key string, poison []byte) {
	w.T.Helper()
	overwrite(w, key, poison)
	<-time.After(swallowed)
}

// answers asks for every list and for one service, and fails the test when an answer is
// not whole.
func answers(w *world.World, service, poison string) {
	w.T.Helper()
	ctx := w.T.Context()
	for name, ask := range map[string]func(context.Context) error{
		"clusters":    func(ctx context.Context) error { _, err := w.Client.Clusters(ctx); return err },
		"federations": func(ctx context.Context) error { _, err := w.Client.Federations(ctx); return err },
		"services":    func(ctx context.Context) error { _, err := w.Client.Services(ctx); return err },
		"replicas":    func(ctx context.Context) error { _, err := w.Client.Replicas(ctx, service, ""); return err },
	} {
		if err := ask(ctx); err != nil {
			w.T.Fatalf("%s after %s: %v", name, poison, err)
		}
	}
	for _, path := range []string{"/system/jobs", "/system/status", "/system/deleted", "/system/audit", "/system/differences"} {
		if status, _, body := w.Do("GET", path, ""); status != 200 {
			w.T.Fatalf("GET %s after %s: %d %.300s", path, poison, status, body)
		}
	}
}

// TestPoisonFromOneCluster replaces every record that a cluster's syncer has written by
// everything that it is not. No answer of the API breaks, no other cluster is written to,
// and when the cluster is itself again all is as it was.
func TestPoisonFromOneCluster(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const c = "oscar-cluster-c"
		w := newWorld(t, world.Options{Sim: world.QuickJobs, Unguarded: true})
		mustCreate(w, "alpha")
		w.AwaitJob(w.Submit("alpha2", "an event"), record.JobSucceeded)
		w.Cluster(c).Stop()
		session, err := w.Store.OpenSession(t.Context(), store.SessionConfig{
			Key: record.SessionKey(c), Record: record.Session{V: record.Version, Instance: "hostile", StartedAt: record.At(time.Now())}, TTL: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		before := writes(w, clusterIDs[:2]...)
		kinds, count := map[record.Kind]bool{}, 0
		observed := records(w, record.ObservedPrefix(c))
		for key, value := range forged(c) {
			if observed[key] == nil {
				observed[key] = []byte(value)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(observed)) {
			kinds[record.ParseKey(key).Kind] = true
			for i, poison := range poisons(t, observed[key]) {
				poisoned(w, key, poison)
				count++
				if i%8 == 0 {
					answers(w, "alpha0", fmt.Sprintf("%s = %.100q", key, poison))
				}
			}
			overwrite(w, key, observed[key])
			answers(w, "alpha0", key)
		}
		t.Logf("%d poisoned records of %d kinds", count, len(kinds))
		if count < 1000 || len(kinds) < 8 || kinds[record.KindUnknown] {
			t.Errorf("only %d poisoned records of the kinds %v", count, kinds)
		}
		if now := writes(w, clusterIDs[:2]...); !maps.Equal(now, before) {
			t.Errorf("others were written to: %v after %v", now, before)
		}
		for key := range forged(c) {
			drop(w, key)
		}
		if err := session.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Cluster(c).Start()
		stands(w, "alpha", "256Mi")
		mustCreate(w, "beta")
	})
}

// forged are records of the kinds that an ordinary run does not leave behind.
func forged(cluster string) map[string]string {
	observed, at := record.ObservedPrefix(cluster), `"2026-11-20T13:04:05.310Z"`
	const job = "0199c3a2-0000-7000-8000-000000000000"
	return map[string]string{
		observed + "shown/alpha2":                  `{"v":1,"revision":7,"at":` + at + `,"service":{"name":"alpha2"},"message":"m"}`,
		observed + "offers/" + job:                 `{"v":1,"service":"alpha2","state":"offered","at":` + at + `}`,
		observed + "events/" + job:                 `{"v":1,"sealed":"eA=="}`,
		observed + "audit/" + job:                  `{"v":1,"federation":"f","action":"read","at":` + at + `}`,
		observed + "jobs/" + job + ".1":            `{"v":1,"state":"running","at":` + at + `,"message":"m"}`,
		observed + "tokens/f/want":                 `{"v":1,"state":"wanted","message":"m","at":` + at + `}`,
		observed + "tokens/f/hold":                 `{"v":1,"state":"stored","message":"m","at":` + at + `}`,
		observed + "tokens/f/asks/oscar-cluster-a": `{"v":1,"sealed":"eA==","at":` + at + `}`,
	}
}

func drop(w *world.World, key string) {
	w.T.Helper()
	_, err := w.Store.Update(w.T.Context(), store.Update{Keys: []string{key}, Build: func(_ store.View, tx *store.Txn) error {
		tx.Delete(key)
		return nil
	}})
	if err != nil {
		w.T.Fatal(err)
	}
}

// TestPoisonInTheStore replaces every record of the control plane and of what is desired
// of a cluster, as a defect or a hand at etcd would. Neither control plane nor syncers die
// or spin, and what is created afterwards stands.
func TestPoisonInTheStore(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, world.Options{Unguarded: true, Sim: func(c *oscarsim.Config) { world.QuickJobs(c) }})
		mustCreate(w, "alpha")
		w.AwaitJob(w.Submit("alpha1", "an event"), record.JobSucceeded)
		kinds, count := map[record.Kind]bool{}, 0
		all := records(w, record.Root)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			ref := record.ParseKey(key)
			// A change of these means another store, or another owner of it.
			if ref.Kind == record.KindMeta || strings.HasPrefix(key, record.ObservedPrefix(ref.Cluster)) {
				continue
			}
			kinds[ref.Kind] = true
			for _, poison := range poisons(t, all[key]) {
				poisoned(w, key, poison)
				count++
			}
			if status, _, body := w.Do("GET", "/system/federations", ""); status != 200 {
				t.Fatalf("after %s: %d %.300s", key, status, body)
			}
			overwrite(w, key, all[key])
		}
		t.Logf("%d poisoned records of %d kinds", count, len(kinds))
		if count < 1000 || len(kinds) < 8 {
			t.Errorf("only %d poisoned records of the kinds %v", count, kinds)
		}
		mustCreate(w, "beta")
		stands(w, "beta", "256Mi")
	})
}

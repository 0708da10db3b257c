package recovery

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// fakeView is a store at one revision.
var today = time.Date(2026, 11, 20, 13, 4, 5, 0, time.UTC)

type fakeView struct {
	revision int64
	kvs      map[string]store.KV
}

func (v fakeView) Revision() int64 { return v.revision }

func (v fakeView) KV(key string) (store.KV, bool) { kv, ok := v.kvs[key]; return kv, ok }

func (v fakeView) Prefix(prefix string) iter.Seq[store.KV] {
	return func(yield func(store.KV) bool) {
		for _, key := range slices.Sorted(maps.Keys(v.kvs)) {
			if strings.HasPrefix(key, prefix) && !yield(v.kvs[key]) {
				return
			}
		}
	}
}

func (v fakeView) put(t *testing.T, key string, rec any) fakeView {
	t.Helper()
	value, err := record.Encode(rec)
	if err != nil {
		t.Fatal(err)
	}
	out := fakeView{revision: v.revision + 1, kvs: maps.Clone(v.kvs)}
	if out.kvs == nil {
		out.kvs = map[string]store.KV{}
	}
	out.kvs[key] = store.KV{Key: key, Value: value, ModRevision: out.revision}
	return out
}

func (v fakeView) drop(key string) fakeView {
	out := fakeView{revision: v.revision + 1, kvs: maps.Clone(v.kvs)}
	delete(out.kvs, key)
	return out
}

// raised is what --bump-revision makes of a store.
func (v fakeView) raised() fakeView { v.revision += store.RevisionBump; return v }

func TestWitness(t *testing.T) {
	fed := func(v fakeView, uid string, phase record.Phase) fakeView {
		return v.put(t, record.FederationKey(uid), record.Federation{V: 1, UID: uid, Phase: phase, Members: []record.Member{
			{Type: "oscar", ClusterID: "a", ServiceName: "s", UID: uid + "-a", Coordinator: true},
			{Type: "oscar", ClusterID: "b", ServiceName: "s", UID: uid + "-b"},
		}})
	}
	deleted := func(v fakeView, replica string, ago time.Duration) fakeView {
		return v.put(t, record.DeletedKey(replica), record.Deleted{V: 1, UID: replica, DeletedAt: record.At(today.Add(-ago))})
	}
	later := func(v fakeView, by time.Duration) fakeView {
		return v.put(t, record.ElapsedKey, record.Elapsed{V: 1, Seconds: int64(by / time.Second), Marks: []record.TimeMark{{Revision: v.revision, Seconds: 0}}})
	}
	meta := &record.Meta{ControlPlane: "cp", Epoch: "e0"}
	backup := fed(fed(fakeView{}, "one", record.PhaseReady), "two", record.PhaseReady)
	const keep = 90 * 24 * time.Hour

	for name, tt := range map[string]struct {
		seen, now fakeView
		meta      *record.Meta
		lost      bool
	}{
		"nothing happened":                      {seen: backup, now: backup},
		"others changed a federation":           {seen: backup, now: fed(backup, "one", record.PhaseReady)},
		"others deleted one":                    {seen: backup, now: deleted(backup.drop(record.FederationKey("one")), "one-a", 0)},
		"its tombstone waits, it is gone":       {seen: backup, now: backup.drop(record.FederationKey("one")).put(t, record.DesiredServiceKey("b", "s"), record.Desired{Intent: record.IntentDelete, UID: "one-b"})},
		"a result was forgotten":                {seen: fed(backup, "three", record.PhaseRolledBack), now: fed(backup, "three", record.PhaseRolledBack).drop(record.FederationKey("three"))},
		"an aborted creation was forgotten":     {seen: fed(backup, "three", record.PhasePreparing), now: fed(backup, "three", record.PhasePreparing).drop(record.FederationKey("three"))},
		"a deletion was forgotten after long":   {seen: deleted(backup, "x", keep), now: deleted(backup, "x", keep).drop(record.DeletedKey("x"))},
		"its deletion was forgotten after long": {seen: backup, now: later(backup.drop(record.FederationKey("one")), keep)},
		"it is gone, and too soon":              {seen: backup, now: later(backup.drop(record.FederationKey("one")), keep/2), lost: true},
		"another control plane's store":         {seen: fed(backup, "three", record.PhaseReady), now: backup, meta: &record.Meta{ControlPlane: "other", Epoch: "x"}},
		"restored, and somebody found out":      {seen: fed(backup, "three", record.PhaseReady), now: backup, meta: &record.Meta{ControlPlane: "cp", Epoch: "e1", Epochs: []string{"e0"}}},
		"revisions went back":                   {seen: backup.put(t, "/elsewhere", 1), now: backup, lost: true},
		"raised: what is gone leaves no trace":  {seen: fed(backup, "three", record.PhasePreparing), now: backup.raised(), lost: true},
		"raised: a new federation is gone":      {seen: fed(backup, "three", record.PhaseReady), now: backup.raised(), lost: true},
		"raised: a change is gone":              {seen: fed(backup, "two", record.PhaseReady), now: backup.raised(), lost: true},
		"raised: a deletion is gone":            {seen: deleted(backup.drop(record.FederationKey("one")), "one-a", time.Hour), now: backup.raised(), lost: true},
		"raised: a creation under way is gone":  {seen: fed(backup, "three", record.PhaseApplying), now: backup.raised(), lost: true},
		"a backup of an older epoch":            {seen: backup, now: backup, meta: &record.Meta{ControlPlane: "cp", Epoch: "e-1"}, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := attest(meta, tt.seen)
			path := filepath.Join(t.TempDir(), "witness.json")
			if err := w.keep(path); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Error(info.Mode(), err)
			}
			read, err := readWitness(path)
			if err != nil {
				t.Fatal(err)
			}
			now := meta
			if tt.meta != nil {
				now = tt.meta
			}
			if lost := read.lost(now, tt.now, today, keep); (lost != "") != tt.lost {
				t.Errorf("lost: %q, want %v", lost, tt.lost)
			}
		})
	}
}

func TestAWitnessKeepsTheNewestFacts(t *testing.T) {
	v := fakeView{}
	for i := range 100 {
		v = v.put(t, record.FederationKey(fmt.Sprint(i*37%100)), record.Federation{V: 1, Phase: record.PhaseReady})
	}
	w := attest(&record.Meta{}, v)
	if len(w.Facts) != maxFacts || w.Revision != 100 {
		t.Fatalf("%d facts at %d", len(w.Facts), w.Revision)
	}
	for i, f := range w.Facts {
		if f.Revision != int64(100-i) {
			t.Errorf("fact %d is of revision %d", i, f.Revision)
		}
	}
}

func TestABrokenWitnessIsSaidToBeOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "witness.json")
	if w, err := readWitness(path); w != nil || err != nil {
		t.Error(w, err)
	}
	for _, bad := range []string{"", "{", "[]", `{"facts":1}`, strings.Repeat(" ", maxWitness+1)} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readWitness(path); err == nil {
			t.Errorf("%.20q was understood", bad)
		}
	}
}

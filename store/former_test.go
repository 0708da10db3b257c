package store_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// TestAMirrorTellsWhatKeysHeldBefore: at each revision that it remembers, exactly what was there.
func TestAMirrorTellsWhatKeysHeldBefore(t *testing.T) {
	s := storetest.New(t)
	remembered := func(key string) bool { return !strings.HasPrefix(key, "/t/skip") }
	m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}, Remember: remembered, RememberBytes: 12_000})
	random := rand.New(rand.NewPCG(1, 2))
	held, at := map[int64]map[string]string{}, map[string]string{}
	var revision int64
	for i := range 120 {
		key := fmt.Sprintf("/t/k%d", random.IntN(8))
		if i%7 == 0 {
			key = "/t/skip"
		}
		value, gone := fmt.Sprintf("%q", fmt.Sprint("v", i)), random.IntN(3) == 0
		res, err := s.Update(t.Context(), store.Update{Keys: []string{key}, Build: func(_ store.View, tx *store.Txn) error {
			if gone {
				tx.Delete(key)
			} else {
				tx.Put(key, fmt.Sprint("v", i))
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if delete(at, key); !gone {
			at[key] = value
		}
		revision = max(revision, res.Revision)
		held[revision] = maps.Clone(at)
	}
	if err := m.Wait(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	known, forgotten := 0, 0
	for from, want := range held {
		former, err := m.Former(from, revision)
		if errors.Is(err, store.ErrCompacted) {
			forgotten++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		known++
		got := map[string]string{}
		for kv := range m.Snapshot().Prefix("/t/k") {
			got[kv.Key] = string(kv.Value)
		}
		for key, kv := range former {
			if strings.HasPrefix(key, "/t/skip") {
				t.Errorf("%s is remembered", key)
			}
			if delete(got, key); kv != nil {
				got[key] = string(kv.Value)
			}
		}
		delete(want, "/t/skip")
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("at %d there is %v, and was %v", from, got, want)
		}
	}
	if known < 10 || forgotten < 10 {
		t.Errorf("%d revisions are known and %d forgotten", known, forgotten)
	}
}

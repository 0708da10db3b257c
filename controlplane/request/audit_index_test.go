package request

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

func TestNobodysEntriesAreWashedOutByAnothers(t *testing.T) {
	x := newAuditIndex()
	entries := map[string]store.KV{}
	n := 0
	enter := func(count int, e record.Audit) {
		for range count {
			value, err := record.Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			kv := store.KV{Key: record.AuditKey(fmt.Sprintf("%06d", n)), Value: value}
			n++
			entries[kv.Key] = kv
			x.Changed(kv, false)
		}
	}
	trim := func() map[string]int {
		for _, id := range x.surplus(100) {
			x.Changed(entries[record.AuditKey(id)], true)
			delete(entries, record.AuditKey(id))
		}
		left := map[string]int{}
		for _, kv := range entries {
			e, err := store.Decode[record.Audit](kv)
			if err != nil {
				t.Fatal(err)
			}
			left[originOf(e)]++
		}
		return left
	}
	want := func(what string, counts map[string]int) {
		t.Helper()
		if got := trim(); !maps.Equal(got, counts) {
			t.Errorf("%s: %v, want %v", what, got, counts)
		}
	}
	enter(120, record.Audit{By: identity.Admin})
	want("alone", map[string]int{identity.Admin: 100})
	enter(3, record.Audit{By: "bob"})
	enter(500, record.Audit{By: "ann"})
	enter(500, record.Audit{Action: record.ActionReadToken, ClusterID: "b"})
	enter(5, record.Audit{Action: record.ActionReadToken, ClusterID: "a"})
	want("in a flood", map[string]int{identity.Admin: 50, "account bob": 3, "account ann": 21, "cluster b": 21, "cluster a": 5})
	enter(1, record.Audit{}) // the control plane itself
	want("one more", map[string]int{identity.Admin: 50, "account bob": 3, "account ann": 21, "cluster b": 21, "cluster a": 5})
	again := newAuditIndex()
	var all []store.KV
	for _, kv := range entries {
		all = append(all, kv)
	}
	again.Listed(all)
	if !maps.Equal(again.of, x.of) {
		t.Error("a listing gives other origins")
	}
}

func TestReadingsBeyondTheRateAreCountedTogether(t *testing.T) {
	var x excessReadings
	now, yes := time.Unix(1_800_000_000, 0), func() bool { return true }
	entered, due := 0, 0
	for range 1000 {
		ok, first := x.admit("a", now, yes)
		if ok {
			entered++
		}
		if first {
			due++
		}
	}
	if entered != readingsBurst || due != 1 || x.take("a") != 1000-readingsBurst || x.take("a") != 0 {
		t.Errorf("%d were entered, and %d entries are due for the others", entered, due)
	}
	if ok, _ := x.admit("b", now, yes); !ok {
		t.Error("another cluster's reading is not entered")
	}
	if ok, first := x.admit("b", now, func() bool { return false }); ok || !first {
		t.Error("a reading of who holds nothing is entered")
	}
}

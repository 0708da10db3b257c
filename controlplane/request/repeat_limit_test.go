package request

import (
	"maps"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

func TestRequestsAreCountedForTheirAccounts(t *testing.T) {
	hash := func(account, key string) string {
		return ClaimOf(identity.Caller{Subject: account}, Repeat{Key: key, Method: "PUT", Path: "/x"}, "r").Hash
	}
	kv := func(account, key string, created, changed int64) store.KV {
		return store.KV{Key: record.RequestKey(hash(account, key)), CreateRevision: created, ModRevision: changed}
	}
	if len(hash("ann", "k")) != 64 || hash("ann", "k") == hash("bob", "k") || hash("ann", "k") == hash("ann", "l") {
		t.Fatal("requests have not a hash of their own")
	}
	var r requestCounts
	want := func(what string, counts map[string]int) {
		t.Helper()
		got := map[string]int{}
		for _, account := range []string{"ann", "bob"} {
			if n := r.count(ownerOfRequest(account)); n > 0 {
				got[account] = n
			}
		}
		if !maps.Equal(got, counts) || len(r.of) != len(counts) {
			t.Errorf("%s: %v, want %v", what, got, counts)
		}
	}
	r.Changed(kv("ann", "1", 5, 5), false)
	r.Changed(kv("ann", "2", 6, 6), false)
	r.Changed(kv("bob", "1", 6, 6), false)
	r.Changed(kv("ann", "1", 5, 7), false) // its outcome
	r.Changed(store.KV{Key: record.MetaKey, CreateRevision: 8, ModRevision: 8}, false)
	r.Changed(store.KV{Key: record.RequestKey("short"), CreateRevision: 8, ModRevision: 8}, false)
	want("made", map[string]int{"ann": 2, "bob": 1})
	r.Changed(kv("ann", "2", 0, 9), true)
	r.Changed(kv("bob", "1", 0, 9), true)
	want("forgotten", map[string]int{"ann": 1})
	r.Listed([]store.KV{kv("bob", "1", 5, 5), kv("bob", "2", 5, 5), {Key: record.MetaKey}})
	want("listed anew", map[string]int{"bob": 2})
}

package view

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// What is kept of a syncer's text is as long in JSON as is allowed, and ends whole.
func TestTextsOfSyncersAreBounded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		n    int
		want string
	}{
		"empty":                     {"", 10, ""},
		"as long as is allowed":     {"0123456789", 10, "0123456789"},
		"longer":                    {"0123456789a", 10, "0123456..."},
		"two bytes in JSON":         {"\"\"\"\"\"\n", 10, `"""...`},
		"a letter of several bytes": {"012345€€", 10, "012345..."},
		"letters that fit":          {"0123€€", 10, "0123€€"},
		"control characters":        {"a\x00b\r\x7fc\u2028d\xff", 20, "a b  c d "},
		"a line and a tab":          {"a\nb\tc", 10, "a\nb\tc"},
	} {
		got := bounded(tt.text, tt.n)
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if raw, err := json.Marshal(got); err != nil || len(raw)-2 > tt.n {
			t.Errorf("%s: %s takes %d bytes, error %v", name, raw, len(raw)-2, err)
		}
	}
}

// A cluster that filled its 256 MiB with lists of empty objects took five gigabytes of each control plane.
func TestAReportTakesLittleMoreMemoryThanItHasBytes(t *testing.T) {
	t.Parallel()
	const head = `{"v":1,"phase":"deleted","uid":"u","observed_generation":1,"desired_revision":1`
	read := func(raw string) *record.Observed {
		v := newView()
		v.news = newChanges()
		key := record.ObservedServiceKey("c", "s")
		v.apply(key, store.KV{Key: key, Value: []byte(raw), ModRevision: 7}, true)
		o := v.Observed("c", "s").Rec
		if said := len(v.news.Corrupt) > 0; said != (o == nil) {
			t.Errorf("%.150s: that it cannot be read is said: %v", raw, said)
		}
		return o
	}
	list := func(field, entry string, n int) string {
		return head + `,"` + field + `":[` + strings.Repeat(entry+",", n-1) + entry + `]}`
	}
	for _, raw := range []string{
		list("bucket_fates", `{}`, 150_000), list("bucket_fates", `{}`, 1000), list("buckets", `""`, 1000), list("bucket_fates", `null`, 100_000),
		list("buckets_made", `"`+strings.Repeat("\xff", 1000)+`"`, 500), list("buckets_made", `"`+strings.Repeat("\u2028", 1000)+`"`, 170),
	} {
		if o := read(raw); o != nil {
			t.Errorf("%.150s is kept, with %d, %d, %d and %d entries", raw, len(o.BucketsMade), len(o.Buckets), len(o.BucketFates), len(o.SilentInputs))
		}
	}
	if o := read(list("bucket_fates", `{"bucket":"abc","fate":"kept"}`, 15_000)); o == nil || len(o.BucketFates) != maxReportList {
		t.Error("of far too many buckets not the first ones are kept")
	}
	long := strings.Repeat("b", 63)
	if o := read(list("bucket_fates", `{"bucket":"`+long+`","fate":"kept","objects":123456}`, 2200)); o == nil || len(o.BucketFates) != 2200 {
		t.Error("what a syncer reports is not kept")
	}
	if o := read(list("buckets_made", `"abc"`, 2200)); o == nil || len(o.BucketsMade) != 2200 {
		t.Error("short names of buckets are not kept")
	}
}

func BenchmarkBoundSentences(b *testing.B) {
	long := strings.Repeat("x", MaxReportMessage)
	members := make([]record.Member, 50)
	b.ReportAllocs()
	for b.Loop() {
		for i := range members {
			members[i].Cause, members[i].Rollback = &record.Failure{Message: long}, &record.Rollback{Message: long}
		}
		BoundSentences(members, 0)
	}
}

// What syncers write is bounded, but for what is opened and not copied: the answer about a service after a restore, and an
// event.
func TestAllReportsAreBounded(t *testing.T) {
	t.Parallel()
	for _, kind := range []record.Kind{
		record.KindSession, record.KindObservedCluster, record.KindObservedService, record.KindCapacity, record.KindReading,
		record.KindHolding, record.KindWant, record.KindGranted, record.KindJobReport, record.KindOffer,
	} {
		if maxReports[reflect.TypeOf(record.New(kind)).Elem()] == 0 {
			t.Errorf("%s is not bounded", kind)
		}
	}
}

// A holder's answer goes to another cluster, which reports it.
func TestAnAnswerOfAHolderIsBounded(t *testing.T) {
	t.Parallel()
	read := func(grant record.Grant) *record.Grant {
		raw, err := record.Encode(grant)
		if err != nil {
			t.Fatal(err)
		}
		v := newView()
		v.news = newChanges()
		key := record.GrantedKey("c1", "f", "c2")
		v.apply(key, store.KV{Key: key, Value: raw, ModRevision: 7}, true)
		return v.Tokens.Get("f").Granted[Exchange{"c1", "c2"}].Rec
	}
	if got := read(record.Grant{V: 1, Nonce: "n", Message: strings.Repeat("x", 100<<10)}); got == nil || len(got.Message) > MaxReportMessage {
		t.Errorf("a long message is kept: %v", got)
	}
	if got := read(record.Grant{V: 1, Nonce: "n", Access: strings.Repeat("x", 64<<10)}); got == nil || len(got.Access) != 64<<10 {
		t.Errorf("a long token is not kept: %v", got)
	}
	for name, grant := range map[string]record.Grant{
		"a long reason":      {V: 1, Nonce: "n", Reason: record.Reason(strings.Repeat("x", 100))},
		"a long nonce":       {V: 1, Nonce: strings.Repeat("x", 5<<10)},
		"far too much of it": {V: 1, Nonce: "n", Access: strings.Repeat("x", 1<<20)},
	} {
		if got := read(grant); got != nil {
			t.Errorf("%s is kept", name)
		}
	}
}

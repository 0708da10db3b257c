package record_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/store/record"
)

func TestACompactRecordIsThePartsOfItsText(t *testing.T) {
	text := []byte(`{"v":1,"uid":"u-1","owner":"o<b>\u003cb\u003e","group_id":"g","members":[{"cluster_id":"a","service_name":"s"},` +
		`{"cluster_id":"b","service_name":"s"},{"cluster_id":"a","service_name":"long enough to be found"}],"created_at":"2026-01-02T03:04:05.000Z"}`)
	var rec, want record.Federation
	for _, f := range []*record.Federation{&rec, &want} {
		if err := json.Unmarshal(text, f); err != nil {
			t.Fatal(err)
		}
	}
	record.Compact(&rec, text)
	if diff := cmp.Diff(want, rec); diff != "" {
		t.Error(diff)
	}
	if n := cap(rec.Members); n != 3 {
		t.Errorf("there is room for %d members", n)
	}
	within := func(s string) bool {
		at, from := uintptr(unsafe.Pointer(unsafe.StringData(s))), uintptr(unsafe.Pointer(unsafe.SliceData(text)))
		return at >= from && at+uintptr(len(s)) <= from+uintptr(len(text))
	}
	for _, s := range []string{rec.UID, rec.GroupID, rec.Members[0].ClusterID, rec.Members[1].ServiceName, rec.Members[2].ServiceName} {
		if !within(s) {
			t.Errorf("%q is not a part of the text", s)
		}
	}
	if within(rec.Owner) {
		t.Error("a string that stands in the text with escapes is said to be in it")
	}
}

// Whatever can be read is the same when it is compact.
func FuzzCompact(f *testing.F) {
	f.Add([]byte(`{"uid":"\"","owner":"a","request_id":"a","sees":["a","","ä\u00e4"],"past":[{}],"told":{"buckets_made":["b"]}}`))
	f.Add([]byte(`{"phase":"ready","buckets":["b","b"],"vote":{"answer":"yes"},"read_back":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, rec := range []any{
			&record.Federation{}, &record.Desired{}, &record.Observed{}, &record.Cluster{}, &record.ObservedCluster{}, &record.Capacity{},
			&record.Job{}, &record.Offer{}, &record.Session{}, &record.Spec{},
		} {
			want := reflect.New(reflect.TypeOf(rec).Elem()).Interface()
			if json.Unmarshal(text, rec) != nil || json.Unmarshal(text, want) != nil {
				continue
			}
			own := []byte(strings.Clone(string(text)))
			record.Compact(rec, own)
			if diff := cmp.Diff(want, rec); diff != "" {
				t.Errorf("%T: %s", rec, diff)
			}
		}
	})
}

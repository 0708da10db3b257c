package support

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
)

func TestWhatIsEntrustedIsLeftOutWhereverItIs(t *testing.T) {
	got := without(map[string]any{
		"phase": "ready", "Script": "x", "refresh_token": "x", "oidcTokens": []any{"x"}, "sealed": map[string]any{"a": "x"},
		"list": []any{map[string]any{"password": "x", "n": 1}}, "message": strings.Repeat("y", longText+1),
	})
	want := map[string]any{
		"phase": "ready", "Script": "left out", "refresh_token": "left out", "oidcTokens": "left out", "sealed": "left out",
		"list": []any{map[string]any{"password": "left out", "n": 1}}, "message": "left out: 1001 bytes",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

// put writes n records of a kind that are not what the kind has: that is shown as well.
func put(t *testing.T, st *store.Store, prefix string, n int) {
	t.Helper()
	if _, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for i := range n {
			tx.PutBytes(fmt.Sprintf("%s%04d", prefix, i), []byte(`{"v":1}`))
		}
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
}

// A record of a kind that holds what is entrusted is a key only, whatever is in it; one that is no JSON
// breaks nothing; the rest of what is too much is counted.
func TestRecordsAreBounded(t *testing.T) {
	st := storetest.New(t)
	for i := range 5 {
		put(t, st, record.JobsPrefix+fmt.Sprint(i), 500)
	}
	if _, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.PutBytes(record.SpecKey("c", "svc/u.1"), []byte(`{"service":{"image":"canary"},"plain":"canary"}`))
		tx.PutBytes(record.ClusterKey("broken"), []byte(`{`))
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	r := &records{store: st, given: map[record.Kind]int{}, omitted: map[record.Kind]int{}, add: func(name string, data []byte) error {
		files[name] = string(data)
		return nil
	}}
	if err := r.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.given[record.KindJob] != mostJobs || r.omitted[record.KindJob] != 500 {
		t.Errorf("given %v, omitted %v", r.given, r.omitted)
	}
	text := files["records-000.ndjson"]
	for _, want := range []string{`specs/svc/u.1","revision":7,"bytes":47}`, `clusters/broken","revision":7,"bytes":1,"record":"no JSON"}`, `jobs/40499"`} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s", want)
		}
	}
	if strings.Contains(text, "canary") || strings.Contains(text, `jobs/00000"`) {
		t.Error("there is more than there should be")
	}
}

func TestACallerWhoGoesEndsIt(t *testing.T) {
	st := storetest.New(t)
	put(t, st, record.ClustersPrefix, 3)
	gone := errors.New("gone")
	r := &records{store: st, given: map[record.Kind]int{}, omitted: map[record.Kind]int{}, add: func(string, []byte) error { return gone }}
	if err := r.write(context.Background()); !errors.Is(err, gone) || !r.broken {
		t.Errorf("%v, broken %v", err, r.broken)
	}
}

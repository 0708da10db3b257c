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
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
)

func TestWhatIsEntrustedIsLeftOutWhereverItIs(t *testing.T) {
	got := without(map[string]any{
		"phase": "ready", "Script": "x", "refresh_token": "x", "refresh": "x", "access": "x", "oidcTokens": []any{"x"}, "sealed": map[string]any{"a": "x"},
		"list": []any{map[string]any{"password": "x", "n": 1}}, "message": strings.Repeat("y", longText+1),
	})
	want := map[string]any{
		"phase": "ready", "Script": "left out", "refresh_token": "left out", "refresh": "left out", "access": "left out", "oidcTokens": "left out", "sealed": "left out",
		"list": []any{map[string]any{"password": "left out", "n": 1}}, "message": "left out: 1001 bytes",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

// Sealed tokens stand in fields whose names say nothing of it, and a short one is no long text.
func TestASupportBundleHasASealedToken(t *testing.T) {
	st := storetest.New(t)
	who, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seal.Seal(seal.Header{Purpose: "refresh_token", Cluster: "c", UID: "f"}, []byte("short"), who.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	if len(sealed) > longText {
		t.Fatalf("%d bytes are left out anyway", len(sealed))
	}
	if _, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(record.HoldKey("c", "f"), record.Hold{V: 1, Order: record.HoldKeep, Serial: 1, Refresh: sealed})
		tx.Put(record.GrantKey("c", "f"), record.Grant{V: 1, Nonce: "n", Access: sealed})
		// By their form alone: fields that later versions have, and messages that quote one.
		tx.Put(record.WantKey("c", "f"), map[string]any{"v": 1, "later": []string{sealed}, "message": "it was " + sealed})
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	r := &records{store: st, given: map[record.Kind]int{}, omitted: map[record.Kind]int{}, add: func(_ string, data []byte) error {
		text.Write(data)
		return nil
	}}
	if err := r.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if seal.HasEnvelope(text.String()) {
		t.Errorf("it has one: %s", text.String())
	}
	for _, want := range []string{`"order":"keep"`, `"refresh":"left out"`, `"nonce":"n"`, `"access":"left out"`, `"later":["left out"],"message":"left out"`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("there is no %s in %s", want, text.String())
		}
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

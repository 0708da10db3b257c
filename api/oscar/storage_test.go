package oscar

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A client that changes a service reads it, changes what it means to, and sends all of it:
// the dashboard, and a script with curl.
func TestWhatAnswersSayOfMinIOIsNotSentBack(t *testing.T) {
	const (
		begin  = `{"name":"svc","storage_providers":{"minio":{"default":`
		hidden = `"access_key":"hidden","secret_key":"hidden"`
	)
	for name, tc := range map[string]struct{ old, sent, want string }{
		"left to the cluster": {`{"name":"svc"}`, "", `{"name":"svc","storage_providers":{}}`},
		"left to the cluster, beside another": {
			`{"name":"svc","storage_providers":{"minio":{"other":{"endpoint":"https://o","access_key":"a","secret_key":"s"}}}}`, "",
			`{"name":"svc","storage_providers":{"minio":{"other":{"endpoint":"https://o","access_key":"a","secret_key":"s"}}}}`},
		"sent back before answers told an endpoint": {
			begin + `{"endpoint":"",` + hidden + `}}}}`, "", begin + `{` + hidden + `}}}}`},
		"the owner's own": {
			begin + `{"endpoint":"https://own","access_key":"mine","secret_key":"too"}}}}`, "",
			begin + `{"endpoint":"https://own","access_key":"mine","secret_key":"too"}}}}`},
		"the owner's own, without keys": {
			begin + `{"endpoint":"https://own"}}}}`, "", begin + `{"endpoint":"https://own"}}}}`},
		"the owner's own, moved": {
			begin + `{"endpoint":"https://own","access_key":"mine","secret_key":"too"}}}}`, begin + `{"endpoint":"https://new",` + hidden + `}}}}`,
			begin + `{"endpoint":"https://new","access_key":"mine","secret_key":"too"}}}}`},
		"new keys": {
			`{"name":"svc"}`, begin + `{"endpoint":"https://new","access_key":"k","secret_key":"hidden"}}}}`,
			begin + `{"endpoint":"https://new","access_key":"k","secret_key":"hidden"}}}}`},
	} {
		old := parse(t, tc.old)
		shown := old.Clone()
		shown.FillDefaultMinIO("https://minio.example.org", "us-east-1", true)
		sent := parse(t, text(t, shown.WithDefaults()))
		if tc.sent != "" {
			sent = parse(t, tc.sent)
		}
		sent.RestoreDefaultMinIO(old)
		got := Service{Name: sent.Name, StorageProviders: sent.StorageProviders}
		if diff := cmp.Diff(tc.want, text(t, &got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if before := text(t, parse(t, tc.old)); text(t, old) != before {
			t.Errorf("%s: the old one was changed: %s", name, text(t, old))
		}
	}
	s := parse(t, `{"name":"svc"}`)
	s.FillDefaultMinIO("", "us-east-1", true)
	if s.StorageProviders != nil {
		t.Errorf("filled in without an endpoint: %s", text(t, s))
	}
}

package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/runs"
)

// forwarded is the last request that was to be forwarded.
func forwarded(t *testing.T, f *fake) runs.ForwardRequest {
	t.Helper()
	in, ok := f.calls[len(f.calls)-1].args.(runs.ForwardRequest)
	if !ok {
		t.Fatalf("the last call is %+v", f.calls[len(f.calls)-1])
	}
	return in
}

func TestAListOfBucketsNamesTheirClusters(t *testing.T) {
	f := &fake{buckets: []v1.Bucket{{Name: "in", Visibility: "private", ClusterID: "b"}}, missing: []string{"c: away"}}
	resp := newClient(t, f).do("GET", "/system/buckets?cluster_id=b", "")
	if got := resp.Header.Get("Oscarfed-Missing"); got != "c: away" || f.calls[0].args != "b" {
		t.Errorf("missing is %q, asked for %v", got, f.calls[0].args)
	}
	// Clients match the beginning.
	want(t, resp, 200, jsonType, `[{"bucket_name":"in","visibility":"private","allowed_users":null,"owner":"","metadata":null,"cluster_id":"b"}]`)
}

func TestWhatOneClusterAnswers(t *testing.T) {
	f := &fake{forwarded: &runs.ForwardAnswer{ClusterID: "b", Status: 403, MediaType: "text/plain; charset=utf-8", Body: []byte("User 'x' is not authorised")}}
	c := newClient(t, f)
	resp := c.do("GET", "/system/buckets/in/?page=2&cluster_id=b", "", "Content-Type", "text/html")
	if resp.Header.Get("Oscarfed-Cluster") != "b" {
		t.Errorf("%v", resp.Header)
	}
	want(t, resp, 403, text, "User 'x' is not authorised")
	if in := forwarded(t, f); in.Name != "in" || in.ClusterID != "b" || in.Query.Get("page") != "2" || in.Route.Path != "/buckets/{name}" {
		t.Errorf("asked for %+v", in)
	}
	f.forwarded = &runs.ForwardAnswer{ClusterID: "b", Status: 204}
	if resp := c.do("DELETE", "/system/buckets/in", ""); resp.StatusCode != 204 {
		t.Errorf("DELETE: %d", resp.StatusCode)
	}
	c.do("POST", "/system/buckets/in/presign", `{"object_key":"x"}`)
	if diff := cmp.Diff(`{"object_key":"x"}`, string(forwarded(t, f).Body)); diff != "" {
		t.Error(diff)
	}
	// A body of another route goes nowhere.
	c.do("DELETE", "/system/volumes/v", "a body")
	if in := forwarded(t, f); len(in.Body) > 0 {
		t.Errorf("a body was passed on: %q", in.Body)
	}
	before := f.count()
	if resp := c.do("POST", "/system/buckets", strings.Repeat("x", v1.MaxForwardBody+1)); resp.StatusCode != http.StatusRequestEntityTooLarge || f.count() != before {
		t.Errorf("a huge body: %d", resp.StatusCode)
	}
}

package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/store/record"
)

func TestCreateAnswers(t *testing.T) {
	away := example().Members[1:]
	tests := []struct {
		name    string
		result  federations.CreateResult
		headers []string
		status  int
		media   string
		body    string
		want    map[string]string
	}{
		{
			name: "ready", result: federations.CreateResult{Done: true}, status: 201,
			want: map[string]string{"Location": "/system/replicas/grayifyr0"},
		},
		{
			name: "the same key again", result: federations.CreateResult{Done: true, Replayed: true}, status: 201,
			want: map[string]string{"Location": "/system/replicas/grayifyr0", "Idempotent-Replayed": "true"},
		},
		{
			name: "nobody waits", result: federations.CreateResult{}, headers: []string{"Prefer", "respond-async"}, status: 202,
			want: map[string]string{"Location": "/system/replicas/grayifyr0", "Preference-Applied": "respond-async"},
		},
		{
			name:   "best effort with a cluster away",
			result: federations.CreateResult{Done: true, Federation: example(), Away: away}, status: 201, media: text,
			body: "Created; 1 of 2 replicas are not ready:\noscar-cluster-b/grayifyr1: unreachable: " +
				"no syncer since 2026-11-20T12:58:11Z; generation 2 will be applied when it is back",
			want: map[string]string{"Location": "/system/replicas/grayifyr0"},
		},
		{
			name: "representation", result: federations.CreateResult{Done: true, Federation: example(), Away: away},
			headers: []string{"Prefer", `foo, return="representation"; x=y`}, status: 201, media: jsonType, body: literal(t, "replicas.json"),
			want: map[string]string{
				"Location": "/system/replicas/grayifyr0", "ETag": `"4711"`, "Preference-Applied": "return=representation",
			},
		},
		{
			name: "representation of what is accepted", result: federations.CreateResult{Federation: example()},
			headers: []string{"Prefer", "respond-async, return=representation"}, status: 202, media: jsonType, body: literal(t, "replicas.json"),
			want: map[string]string{"ETag": `"4711"`},
		},
		{
			name: "minimal is what is done anyway", result: federations.CreateResult{Done: true, Federation: example()},
			headers: []string{"Prefer", "return=minimal"}, status: 201, want: map[string]string{"Preference-Applied": ""},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := newClient(t, &fake{created: &tt.result}).do("POST", "/system/services", service, tt.headers...)
			want(t, resp, tt.status, tt.media, tt.body)
			for name, value := range tt.want {
				if got := strings.Join(resp.Header.Values(name), ", "); got != value {
					t.Errorf("%s is %q, want %q", name, got, value)
				}
			}
		})
	}
}

func TestCreateRequest(t *testing.T) {
	tests := []struct {
		name, query string
		headers     []string
		want        federations.CreateRequest
	}{
		{"defaults", "", nil, federations.CreateRequest{Wait: 60 * time.Second}},
		{"wait", "?wait=1m30s", nil, federations.CreateRequest{Wait: 90 * time.Second}},
		{"wait in seconds", "?wait=15", nil, federations.CreateRequest{Wait: 15 * time.Second}},
		{"wait of nothing", "?wait=0s", nil, federations.CreateRequest{}},
		{"empty wait", "?wait=", nil, federations.CreateRequest{Wait: 60 * time.Second}},
		{"longest wait", "?wait=10m", nil, federations.CreateRequest{Wait: 10 * time.Minute}},
		{"async beats wait", "?wait=30s", []string{"Prefer", "Respond-Async"}, federations.CreateRequest{}},
		{
			"deployment and key", "?deployment=best-effort", []string{"Idempotency-Key", "a key: 1"},
			federations.CreateRequest{Wait: 60 * time.Second, Deployment: "best-effort", IdempotencyKey: "a key: 1"},
		},
		{
			"longest key", "?deployment=transactional", []string{"Idempotency-Key", strings.Repeat("~", 255)},
			federations.CreateRequest{Wait: 60 * time.Second, Deployment: "transactional", IdempotencyKey: strings.Repeat("~", 255)},
		},
		{"no content type", "", []string{"Content-Type", ""}, federations.CreateRequest{Wait: 60 * time.Second}},
		{"text/json", "", []string{"Content-Type", "text/json"}, federations.CreateRequest{Wait: 60 * time.Second}},
		{"bytes", "", []string{"Content-Type", "application/octet-stream"}, federations.CreateRequest{Wait: 60 * time.Second}},
		{"unknown parameters", "?include=deployment&await=bad", nil, federations.CreateRequest{Wait: 60 * time.Second}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{created: &federations.CreateResult{Done: true}}
			resp := newClient(t, f).do("POST", "/system/services"+tt.query, service, tt.headers...)
			if resp.StatusCode/100 != 2 {
				t.Fatalf("%d %s", resp.StatusCode, bodyOf(t, resp))
			}
			got := f.only(t).args.(federations.CreateRequest)
			if got.RequestID != resp.Header.Get("X-Request-ID") || string(got.Body) != service || got.Service.Name != "grayifyr0" {
				t.Errorf("got %+v", got)
			}
			got.RequestID, got.Body, got.Service = "", nil, nil
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDelete(t *testing.T) {
	f := &fake{deleted: &federations.DeleteResult{Pending: 2}}
	resp := newClient(t, f).do("DELETE", "/system/services/svc?cluster_id=b&data=delete&jobs=cancel&wait=5s&namespace=oscar-svc", "")
	want(t, resp, 204, "", "")
	if got := resp.Header.Get("Oscarfed-Pending"); got != "2" {
		t.Errorf("Oscarfed-Pending is %q", got)
	}
	got := f.only(t)
	wanted := federations.DeleteOptions{
		ClusterID: "b", RequestID: resp.Header.Get("X-Request-ID"), Data: "delete", Jobs: "cancel", Wait: 5 * time.Second,
	}
	if got.name != "DeleteService svc" || got.args != wanted {
		t.Errorf("got %+v", got)
	}
}

// A caller that prefers a representation gets what stays.
func TestDeleteTellsWhatStays(t *testing.T) {
	n := int64(200)
	f := &fake{deleted: &federations.DeleteResult{Pending: 1, Replicas: []v1.DeletedReplica{
		{UID: "u1", Federation: "f", GroupID: "g", ClusterID: "a", ServiceName: "svc", Owner: "o", Cause: string(record.CauseDeleted),
			Buckets: []v1.BucketFate{{Bucket: "svc", Fate: record.BucketKept, Objects: &n, AtLeast: true}}},
		{UID: "u2", Federation: "f", GroupID: "g", ClusterID: "b", ServiceName: "svc", Owner: "o", Cause: string(record.CauseDeleted), Pending: true, Message: "away", Buckets: []v1.BucketFate{}},
	}}}
	list := `[{"uid":"u1","federation":"f","group_id":"g","cluster_id":"a","service_name":"svc","owner":"o","cause":"deleted","pending":false,"message":"","buckets":[{"bucket":"svc","fate":"kept","objects":200,"at_least":true}]},` +
		`{"uid":"u2","federation":"f","group_id":"g","cluster_id":"b","service_name":"svc","owner":"o","cause":"deleted","pending":true,"message":"away","buckets":[]}]`
	c := newClient(t, f)
	resp := c.do("DELETE", "/system/services/svc", "", "Prefer", "return=representation")
	if body := bodyOf(t, resp); resp.StatusCode != 200 || strings.TrimSpace(body) != `{"pending":1,"replicas":`+list+`}` || resp.Header.Get("Oscarfed-Pending") != "1" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if body := bodyOf(t, c.do("GET", "/system/deleted?group_id=g", "")); strings.TrimSpace(body) != list {
		t.Errorf("listed: %s", body)
	}
}

func TestAuditIsListed(t *testing.T) {
	f := &fake{audit: []v1.AuditEntry{{
		ID: "0199", At: v1.Time{Time: moment("2026-11-20T13:04:05.120Z")}, By: "ann", Action: string(record.ActionChange),
		Outcome: string(record.OutcomeRefused), Federation: "f", Owner: "ann", GroupID: "g", Generation: 2, RequestID: "r", Detail: "no room",
	}}}
	c := newClient(t, f)
	want := `[{"id":"0199","at":"2026-11-20T13:04:05.120Z","by":"ann","action":"change","outcome":"refused","federation":"f","owner":"ann","group_id":"g","generation":2,"request_id":"r","detail":"no room"}]`
	if body := bodyOf(t, c.do("GET", "/system/audit?limit=7&before=01a21e3b-c894-71cb-8d2d-9ed081414ea9&federation=g&by=ann&cluster_id=a&request_id=r", "")); strings.TrimSpace(body) != want {
		t.Errorf("listed: %s", body)
	}
	if got := f.only(t); got.args != (request.AuditQuery{Limit: 7, Before: "01a21e3b-c894-71cb-8d2d-9ed081414ea9", Federation: "g", By: "ann", ClusterID: "a", RequestID: "r"}) {
		t.Errorf("asked for %+v", got.args)
	}
	for _, limit := range []string{"0", "-1", "1001", "x", "1e9"} {
		if resp := c.do("GET", "/system/audit?limit="+limit, ""); resp.StatusCode != 400 {
			t.Errorf("limit %s: %d", limit, resp.StatusCode)
		}
	}
}

// Nothing but the very word orders that data goes or jobs end.
func TestDeleteOrdersAreExact(t *testing.T) {
	for _, query := range []string{"data=true", "data=DELETE", "data=1", "jobs=delete", "jobs=yes", "data=delete&jobs=x", "wait=soon"} {
		f := &fake{deleted: &federations.DeleteResult{}}
		if resp := newClient(t, f).do("DELETE", "/system/services/svc?"+query, ""); resp.StatusCode != 400 || f.count() != 0 {
			t.Errorf("%s: %d, %d calls", query, resp.StatusCode, f.count())
		}
	}
	f := &fake{deleted: &federations.DeleteResult{}}
	newClient(t, f).do("DELETE", "/system/services/svc?wait=", "")
	if got := f.only(t).args.(federations.DeleteOptions); got.Data != "" || got.Jobs != "" || got.Wait != 0 {
		t.Errorf("got %+v", got)
	}
}

// A definition with federaton: became a service of one cluster without a word.
func TestAKeyThatNothingKnowsIsWarnedOf(t *testing.T) {
	for body, want := range map[string]string{
		`{"name":"a","image":"i","script":"s","federaton":{}}`: `299 oscarfed "federaton is not known and has no effect; did you mean \"federation\"?"`,
		`{"name":"a","image":"i","script":"s","vo":"v"}`:       "",
	} {
		f := example()
		resp := newClient(t, &fake{federation: &f}).do("POST", "/system/services", body)
		if got := resp.Header.Get("Warning"); got != want {
			t.Errorf("%s: %d, warning %q, want %q", body, resp.StatusCode, got, want)
		}
	}
}

func parse(t testing.TB, body string) *oscar.Service {
	t.Helper()
	s, violations := oscar.ParseService([]byte(body))
	if len(violations) > 0 {
		t.Fatal(violations)
	}
	return s
}

// OSCAR's paths escape HTML as gin does, ours do not.
func TestServicesAreWrittenAsByGin(t *testing.T) {
	s := parse(t, `{"name":"a","script":"echo <&> \u2028"}`)
	c := newClient(t, &fake{services: []*oscar.Service{s}, service: s})
	const escaped = `"script":"echo \u003c\u0026\u003e \u2028"`
	for _, path := range []string{"/system/services", "/system/services/a"} {
		if got := bodyOf(t, c.do("GET", path, "")); !contains(got, escaped) || strings.HasSuffix(got, "\n") {
			t.Errorf("%s: %q", path, got)
		}
	}
	f := example()
	f.Members[0].Status.Message = "a < b"
	c = newClient(t, &fake{federation: &f})
	if got := bodyOf(t, c.do("GET", "/system/federations/x", "")); !contains(got, `"message":"a < b"`) || strings.HasSuffix(got, "\n") {
		t.Errorf("got %q", got)
	}
}

// A short list that fails is an error; of a long one a part is sent by then, and no client may
// take it for a whole one.
func TestAListThatFailsIsNeverTakenForAWholeOne(t *testing.T) {
	s := parse(t, `{"name":"a","script":"`+strings.Repeat("x", 1000)+`"}`)
	for _, n := range []int{3, 3000} {
		f := &fake{services: slices.Repeat([]*oscar.Service{s}, n)}
		server := httptest.NewServer(newServer(t, f).Handler())
		t.Cleanup(server.Close)
		get := func() (int, []*oscar.Service, error) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/system/services", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.SetBasicAuth(user, password)
			resp, err := server.Client().Do(r)
			if err != nil {
				return 0, nil, err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK {
				return resp.StatusCode, nil, err
			}
			var list []*oscar.Service
			return resp.StatusCode, list, json.Unmarshal(body, &list)
		}
		if code, list, err := get(); code != 200 || err != nil || len(list) != n || list[n-1].Script != s.Script {
			t.Errorf("%d services: %d, %v, %d of them", n, code, err, len(list))
		}
		f.broken = &fault.Error{Code: fault.CodeUnavailable, Message: "etcd is away"}
		code, _, err := get()
		if short := n == 3; short && (code != 503 || err != nil) || !short && err == nil {
			t.Errorf("%d services: %d, %v", n, code, err)
		}
	}
}

func TestEmptyLists(t *testing.T) {
	c := newClient(t, &fake{})
	for _, path := range []string{"/system/services", "/system/federations", "/system/clusters"} {
		want(t, c.do("GET", path, ""), 200, jsonType, "[]")
	}
}

func TestNamesInPaths(t *testing.T) {
	tests := []struct{ path, name string }{
		{"/system/services/a", "a"},
		{"/system/services/a%20b", "a b"},
		{"/system/services/a%2Fb", "a/b"},
		{"/system/services/%2e%2e", ".."},
		{"/system/services/caf%C3%A9", "café"},
		{"/system/services/%00", "\x00"},
		{"/system/services/a%2Fb%25", "a/b%"},
	}
	for _, tt := range tests {
		f := &fake{err: &fault.Error{Code: fault.CodeNotFound}}
		handler := newServer(t, f).Handler() // the description's router does not decode
		c := &client{t, handler}
		resp := c.do("GET", tt.path+"?cluster_id=c", "")
		want(t, resp, 404, "", "")
		if got := f.only(t).args; got != (target{tt.name, "c"}) {
			t.Errorf("%s: asked for %+v", tt.path, got)
		}
	}
}

func TestSeveralServicesOfOneName(t *testing.T) {
	c := newClient(t, &fake{err: &fault.Error{
		Code: fault.CodeConflict, Message: "several services have this name; choose with ?cluster_id=",
		Candidates: []string{"oscar-cluster-a", "oscar-cluster-b"},
	}})
	want(t, c.do("GET", "/system/services/x", ""), 409, text,
		"several services have this name; choose with ?cluster_id=\noscar-cluster-a\noscar-cluster-b")
	if p := problemOf(t, c.do("GET", "/system/replicas/x", "")); !cmp.Equal(p.Clusters, []string{"oscar-cluster-a", "oscar-cluster-b"}) {
		t.Errorf("got %+v", p)
	}
}

func TestClusters(t *testing.T) {
	registered := clusters.Cluster{Cluster: v1.Cluster{
		V: 1, ClusterID: "c1", UID: "u", Endpoint: "https://c1", Labels: map[string]string{}, State: "active", AllowedGroups: []string{},
		RegisteredAt: v1.Time{Time: moment("2026-11-20T12:00:00Z")},
	}}
	tests := []struct {
		method, path, body string
		status             int
		want               any
	}{
		{"POST", "/system/clusters", `{"cluster_id":"c1","endpoint":"https://c1"}`, 201,
			clusters.Spec{ClusterID: "c1", Endpoint: "https://c1", SSLVerify: true}},
		{"POST", "/system/clusters", `{"Cluster_ID":"c1","endpoint":"https://c1","ssl_verify":false,"labels":{"a":"b"},"allowed_groups":["vo"]}`, 201,
			clusters.Spec{ClusterID: "c1", Endpoint: "https://c1", Labels: map[string]string{"a": "b"}, AllowedGroups: []string{"vo"}}},
		{"PUT", "/system/clusters/c1", `{"endpoint":"https://c1"}`, 200,
			clusters.Spec{ClusterID: "c1", Endpoint: "https://c1", SSLVerify: true}},
		{"PUT", "/system/clusters/c1", strings.Replace(literal(t, "cluster.json"), `"cluster_id":"oscar-cluster-b"`, `"cluster_id":"c1"`, 1), 200,
			clusters.Spec{
				ClusterID: "c1", Endpoint: "https://oscar-b.example.org", SSLVerify: true,
				Labels: map[string]string{"site": "upv"}, AllowedGroups: []string{},
			}},
		{"DELETE", "/system/clusters/c1?orphan=true&force=false&wait=3s", "", 204, clusters.RemoveOptions{Orphan: true, Wait: 3 * time.Second}},
		{"DELETE", "/system/clusters/c1?force=true", "", 204, clusters.RemoveOptions{Force: true, Wait: 10 * time.Second}},
		{"GET", "/system/clusters/c1", "", 200, target{Name: "c1"}},
	}
	for _, tt := range tests {
		f := &fake{cluster: &registered, removed: &clusters.RemoveResult{}}
		resp := newClient(t, f).do(tt.method, tt.path, tt.body)
		if resp.StatusCode != tt.status {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, resp.StatusCode, bodyOf(t, resp))
			continue
		}
		args := f.only(t).args
		if opts, ok := args.(clusters.RemoveOptions); ok {
			opts.RequestID = "" // a new one for each
			args = opts
		}
		if diff := cmp.Diff(tt.want, args); diff != "" {
			t.Errorf("%s %s: %s", tt.method, tt.path, diff)
		}
		if tt.status == http.StatusCreated && resp.Header.Get("Location") != "/system/clusters/c1" {
			t.Errorf("Location is %q", resp.Header.Get("Location"))
		}
	}
	// Without its groups a cluster lets everybody in.
	f := &fake{cluster: &registered}
	for _, method := range []string{"POST", "PUT"} {
		path := "/system/clusters" + map[string]string{"PUT": "/c1"}[method]
		p := problemOf(t, newClient(t, f).do(method, path, `{"cluster_id":"c1","endpoint":"https://c1","allowed_group":["vo"]}`))
		if len(p.Violations) != 1 || p.Violations[0].Message != `a cluster has no "allowed_group"; did you mean "allowed_groups"?` || len(f.calls) > 0 {
			t.Errorf("%s: %+v, calls %+v", method, p, f.calls)
		}
	}
}

// oscar-cli puts the name that it knows an endpoint by into what it sends there. This is
// what the one of OSCAR v3 sends (1.9) to a control plane that its user has added as
// default-cluster, byte for byte.
func TestOscarCLIKnowsTheControlPlaneAsTheDefaultCluster(t *testing.T) {
	const sent = `{"name":"one","cluster_id":"default-cluster","memory":"256Mi","cpu":"0.5","total_memory":"","total_cpu":"","enable_gpu":false,"enable_sgx":false,` +
		`"image_prefetch":false,"synchronous":{"min_scale":0,"max_scale":0},"delegation":"","rescheduler_threshold":0,"log_level":"CRITICAL","image":"ghcr.io/grycap/cowsay",` +
		`"alpine":false,"token":"","file_stage_in":false,"input":[{"storage_provider":"minio.default","path":"one/in"}],"output":[{"storage_provider":"minio.default","path":"one/out"}],` +
		`"script":"#!/bin/sh\ncat \"$INPUT_FILE_PATH\"\n","expose":{"min_scale":0,"max_scale":0,"cpu_threshold":0,"rewrite_target":false,"nodePort":0,"default_command":false,"set_auth":false},` +
		`"environment":{"Variables":null},"annotations":null,"vo":"","labels":null,"storage_providers":{},"clusters":{"default-cluster":{"endpoint":"http://127.0.0.1:28099",` +
		`"auth_user":"oscar","auth_password":"pw","ssl_verify":false}},"owner":"","interlink_node_name":"","allowed_users":null,"mount":{"storage_provider":"","path":""}}`
	f := &fake{created: &federations.CreateResult{Done: true}}
	want(t, newClient(t, f).do("POST", "/system/services", sent), 201, "", "")
	if got := f.only(t).args.(federations.CreateRequest); got.Service.ClusterID != "" || got.Service.Name != "one" || string(got.Body) != sent {
		t.Errorf("got cluster %q of %+v", got.Service.ClusterID, got.Service)
	}
	// The user may have added it with a query, which then goes with every request (docs/api.md).
	f.calls = nil
	want(t, newClient(t, f).do("POST", "/system/services?cluster_id=oscar-cluster-b", sent), 201, "", "")
	if got := f.only(t).args.(federations.CreateRequest); got.ClusterID != "oscar-cluster-b" {
		t.Errorf("the cluster of the endpoint's query is %q", got.ClusterID)
	}
	f.calls = nil
	named := strings.Replace(sent, `"default-cluster","memory"`, `"oscar-cluster-a","memory"`, 1)
	want(t, newClient(t, f).do("POST", "/system/services?cluster_id=oscar-cluster-b", named), 201, "", "")
	if got := f.only(t).args.(federations.CreateRequest); got.ClusterID != "" || got.Service.ClusterID != "oscar-cluster-a" {
		t.Errorf("a definition that names its cluster is for %q, %q beside it", got.Service.ClusterID, got.ClusterID)
	}
}

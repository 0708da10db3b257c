package server_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// literal is an answer of the contract, byte for byte. A file of JSON is indented for the
// reader; what is on the wire is compact.
func literal(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "contract", name))
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(name) != ".json" {
		return strings.TrimSuffix(string(data), "\n")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		t.Fatal(err)
	}
	return compact.String()
}

func failedCreate() *fault.Error {
	return &fault.Error{
		Code:    fault.CodeReplicaFailed,
		Message: "oscar-cluster-b/grayifyr1: create answered 500",
		Failed: &fault.FailedCreate{
			GroupID: "grayifyr0", Service: "grayifyr0", Phase: record.PhaseRollingBack,
			Failed: v1.Failed{Rollback: "pending", Replicas: []v1.FailedReplica{
				{Type: "oscar", ClusterID: "oscar-cluster-a", ServiceName: "grayifyr0", Rollback: v1.Rollback{State: "deleted"}},
				{
					Type: "oscar", ClusterID: "oscar-cluster-b", ServiceName: "grayifyr1",
					Cause: &v1.Cause{
						Reason: "CreateFailed", Operation: "create", Status: 500,
						Message: `the StorageProvider "minio.shared" is not defined`,
					},
					Rollback: v1.Rollback{State: "not_created", Message: "absence was read back"},
				},
				{
					Type: "oscar", ClusterID: "oscar-cluster-c", ServiceName: "grayifyr2",
					Cause:    &v1.Cause{Reason: "SessionLost", Operation: "create", Message: "no report since 13:04:09Z"},
					Rollback: v1.Rollback{State: "pending", Message: "the tombstone waits for the cluster"},
				},
			}},
		},
	}
}

func TestContractReplicas(t *testing.T) {
	f := &fake{replicas: func() *view.Replicas {
		return &view.Replicas{Federation: example(), Self: 0, Sees: []int{1}}
	}}
	resp := newClient(t, f).do("GET", "/system/replicas/grayifyr0", "")
	want(t, resp, 200, jsonType, literal(t, "replicas.json"))
	if got := resp.Header.Get("ETag"); got != `"4711"` {
		t.Errorf("ETag is %s", got)
	}
}

func TestContractFailedCreate(t *testing.T) {
	c := newClient(t, &fake{err: failedCreate()})
	const id = "0199c3a2-5f0e-7c31-9a44-3b1f0d8e6a21"
	want(t, c.do("POST", "/system/services", service, "X-Request-ID", id, "Accept", problemType), 424, problemType, literal(t, "failed.json"))
	want(t, c.do("POST", "/system/services", service, "X-Request-ID", id), 424, text, literal(t, "failed.txt"))
}

// A no in the vote has the same shape with the code that its causes call for.
func TestContractRefusedByAVote(t *testing.T) {
	e := failedCreate()
	e.Code, e.Message = fault.CodeAlreadyExists, ""
	e.Failed.Phase, e.Failed.Rollback = record.PhaseAborted, "not_needed"
	e.Failed.Replicas = e.Failed.Replicas[1:2]
	e.Failed.Replicas[0].Cause = &v1.Cause{
		Reason: "ForeignBucket", Operation: "vote", Message: `the bucket "in" exists and is not ours`,
	}
	c := newClient(t, &fake{err: e})
	p := problemOf(t, c.do("POST", "/system/services", service, "Accept", problemType))
	if p.Status != 409 || p.Code != "already_exists" || p.Phase != "aborted" || p.Rollback != "not_needed" ||
		p.Title != "The service could not be created on every cluster" || p.Detail != "oscar-cluster-b/grayifyr1: ForeignBucket" {
		t.Errorf("got %+v", p)
	}
	want(t, c.do("POST", "/system/services", service), 409, text,
		"Federation failed; rollback not needed: oscar-cluster-b/grayifyr1: ForeignBucket: the bucket \"in\" exists and is not ours\n"+
			"oscar-cluster-b/grayifyr1: not created")
}

func TestContractInvalid(t *testing.T) {
	c := newClient(t, &fake{err: &fault.Error{
		Code: fault.CodeInvalid, Message: "something else",
		Violations: []oscar.Violation{
			{
				Path: "federation.topology", Rule: "one_of", Value: "ring",
				Message: `topology "ring" is unknown; use none, star, tree or mesh`,
			}, {
				Path: "federation.members[2].cluster_id", Rule: "known_cluster", Value: "oscar-cluster-z",
				Message: `cluster "oscar-cluster-z" is not registered; known: oscar-cluster-a, oscar-cluster-b, oscar-cluster-c`,
			},
		},
	}})
	const id = "0199c3a2-6a11-7b40-a2c8-0d5e9f3b7c64"
	want(t, c.do("POST", "/system/services", service, "X-Request-ID", id, "Accept", "text/plain, "+problemType+";q=0.9"), 400, problemType, literal(t, "invalid.json"))
	want(t, c.do("POST", "/system/services", service, "X-Request-ID", id), 400, text, literal(t, "invalid.txt"))
}

func TestContractCluster(t *testing.T) {
	cluster := clusters.Cluster{Cluster: v1.Cluster{
		V: 1, ClusterID: "oscar-cluster-b", UID: "0199c3a2-0000-7000-8000-0000000000b0", Endpoint: "https://oscar-b.example.org",
		SSLVerify: true, Labels: map[string]string{"site": "upv"}, State: string(record.ClusterActive), AllowedGroups: []string{},
		RegisteredAt: v1.Time{Time: moment("2026-11-20T12:00:00Z")}, Alive: true, OscarVersion: "v4.1.2", QueueS: 60,
	}}
	f := &fake{cluster: &cluster}
	c := newClient(t, f)
	want(t, c.do("GET", "/system/clusters/oscar-cluster-b", ""), 200, jsonType, literal(t, "cluster.json"))

	seen := moment("2026-11-20T12:58:11Z")
	cluster.Alive, cluster.LastSeen, cluster.Reason = false, &v1.Time{Time: seen}, "OscarUnreachable"
	cluster.Orphans = []v1.Orphan{{ServiceName: "lost", UID: "u", Generation: 3, Reason: "AheadOfDesired"}}
	cluster.Unlisted = []v1.Unlisted{{ServiceName: "half", Reason: "CreateFailed", Message: "it is half-created"}}
	want(t, c.do("GET", "/system/clusters/oscar-cluster-b", ""), 200, jsonType, literal(t, "cluster_away.json"))
}

func TestFederation(t *testing.T) {
	f := example()
	c := newClient(t, &fake{federation: &f, federations: []view.Federation{f}})
	federation := literal(t, "federation.json")
	want(t, c.do("GET", "/system/federations/grayifyr0", ""), 200, jsonType, federation)
	want(t, c.do("GET", "/system/federations", ""), 200, jsonType, "["+federation+"]")
}

// The kept result of a failed creation tells why, where its Location points.
func TestFailedFederationTellsWhy(t *testing.T) {
	f := example()
	f.Phase, f.Failed = record.PhaseRolledBack, failedCreate().Failed
	f.Failed.Rollback = "complete"
	c := newClient(t, &fake{
		federation: &f,
		replicas:   func() *view.Replicas { return &view.Replicas{Federation: f} },
	})
	for _, path := range []string{"/system/federations/grayifyr0", "/system/replicas/grayifyr0"} {
		body := bodyOf(t, c.do("GET", path, ""))
		for _, part := range []string{`"phase":"rolled_back"`, `"failed":{"rollback":"complete","replicas":[`, `"reason":"CreateFailed"`} {
			if !contains(body, part) {
				t.Errorf("%s: no %s in %s", path, part, body)
			}
		}
	}
}

// Members of type endpoint have what was given and no status; what is not given is not there; no
// members are an empty array.
func TestReplicasWithEndpoint(t *testing.T) {
	f := example()
	no, weight := false, 3
	f.Topology = "star"
	f.Members[1] = view.Replica{Type: "endpoint", ServiceName: "far", URL: "https://far.example.org", SSLVerify: &no, Weight: &weight}
	self := 0
	c := newClient(t, &fake{replicas: func() *view.Replicas {
		v := &view.Replicas{Federation: f, Self: self}
		if self == 0 {
			v.Sees = []int{1}
		}
		return v
	}})
	if got := bodyOf(t, c.do("GET", "/system/replicas/grayifyr0", "")); !contains(got,
		`"replicas":[{"type":"endpoint","cluster_id":"","service_name":"far","priority":0,"url":"https://far.example.org","ssl_verify":false,"weight":3}]}`) {
		t.Errorf("got %s", got)
	}
	self = 1
	if got := bodyOf(t, c.do("GET", "/system/replicas/far", "")); !contains(got, `"replicas":[]}`) {
		t.Errorf("got %s", got)
	}
}

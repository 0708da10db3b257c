package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/plan"
)

var planDigest = strings.Repeat("0123456789abcdef", 4)

func TestPlanOnTheWire(t *testing.T) {
	f := &fake{plan: &v1.Plan{
		Action: v1.PlanChange, Coordinator: v1.Address{ClusterID: "a", ServiceName: "svc"}, GroupID: "g", Owner: "o", UID: "u", Generation: 1, Revision: 41,
		NextGeneration: 2, ClustersRevision: 9, Digest: planDigest, Deployment: "transactional",
		Fields:   []v1.PlanField{{Path: "memory", Before: json.RawMessage(`"1Gi"`)}},
		Secrets:  []v1.PlanSecret{{Path: "environment.secrets.K", Change: oscar.SecretChanged}},
		Topology: v1.PlanTopology{Before: "mesh", After: "star", EdgesAdded: [][2]string{}, EdgesRemoved: [][2]string{{"b/svc", "a/svc"}}},
		Replicas: []v1.PlanReplica{{
			ClusterID: "a", ServiceName: "svc", Action: v1.PlanUpdate, DelayS: 90, Reasons: []string{"memory differs"}, Spec: "sha256:00",
		}},
		Warnings: []v1.PlanWarning{{ClusterID: "a", Reason: "Paused", Message: "m"}},
	}}
	c := newClient(t, f)
	want(t, c.do("POST", "/system/plans?deployment=best-effort&cluster_id=a", service), 200, "application/json; charset=utf-8",
		`{"action":"change","coordinator":{"cluster_id":"a","service_name":"svc"},"group_id":"g","owner":"o","uid":"u","generation":1,"revision":41,`+
			`"next_generation":2,"clusters_revision":9,"digest":"`+planDigest+`","deployment":"transactional","fields":[{"path":"memory","before":"1Gi"}],`+
			`"secrets":[{"path":"environment.secrets.K","change":"changed"}],"topology":{"before":"mesh","after":"star","edges_added":[],"edges_removed":[["b/svc","a/svc"]]},`+
			`"replicas":[{"cluster_id":"a","service_name":"svc","action":"update","votes":false,"delay_s":90,"reasons":["memory differs"],"spec":"sha256:00"}],`+
			`"warnings":[{"cluster_id":"a","reason":"Paused","message":"m"}]}`)
	req, ok := f.only(t).args.(plan.Request)
	if !ok || req.Deployment != "best-effort" || req.Service.ClusterID != "a" {
		t.Errorf("%+v", req)
	}
}

func TestRequestsAreBoundToAPlan(t *testing.T) {
	f := &fake{created: &federations.CreateResult{Federation: example(), Done: true}, changed: changed()}
	c := newClient(t, f)
	for _, method := range []string{"POST", "PUT"} {
		f.calls = nil
		c.do(method, "/system/services", service, "Oscarfed-Plan", planDigest)
		var got string
		switch req := f.only(t).args.(type) {
		case federations.CreateRequest:
			got = req.Plan
		case federations.ChangeRequest:
			got = req.Plan
		}
		if diff := cmp.Diff(planDigest, got); diff != "" {
			t.Errorf("%s: %s", method, diff)
		}
		f.calls = nil
		for _, bad := range []string{"x", planDigest[1:], planDigest + "0", strings.ToUpper(planDigest), `"` + planDigest + `"`} {
			if p := problemOf(t, c.do(method, "/system/services", service, "Oscarfed-Plan", bad, "Accept", problemType)); p.Code != "invalid" || p.Violations[0].Path != "Oscarfed-Plan" {
				t.Errorf("%s bound to %q: %+v", method, bad, p)
			}
		}
		if f.count() != 0 {
			t.Errorf("%s: a request with a bad digest reached the control plane", method)
		}
	}
}

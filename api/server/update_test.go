package server_test

import (
	"strings"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// changed is the result of a change of the example, as its coordinator sees it.
func changed(away ...view.Replica) *federations.ChangeResult {
	return &federations.ChangeResult{Replicas: view.Replicas{Federation: example(), Self: 0, Sees: []int{1}}, Away: away}
}

func away(cluster string, phase record.Phase, reason record.Reason, message string) view.Replica {
	return view.Replica{
		Type: "oscar", ClusterID: cluster, ServiceName: "svc",
		Status: &view.Status{Phase: phase, Reason: reason, Message: message},
	}
}

func TestUpdateAnswers(t *testing.T) {
	tests := []struct {
		name    string
		away    []view.Replica
		headers []string
		status  int
		media   string
		body    string
	}{
		{name: "applied", status: 204},
		{
			name: "still at work, and nobody waits", status: 204, headers: []string{"Prefer", "respond-async"},
			away: []view.Replica{
				away("a", "applying", "", ""), away("b", "pending", "", ""), away("c", "ready", "Applied", ""), away("d", "deleting", "", ""),
				{Type: "endpoint", URL: "https://far"},
			},
		},
		{
			name: "still at work after the wait", status: 200, media: text,
			away: []view.Replica{away("a", "applying", "Applied", "an old message"), away("b", "pending", "", ""), {Type: "endpoint", URL: "https://far"}},
			body: "Updated with federation warnings: [a/svc: applying: not applied within 10s, b/svc: pending: not applied within 10s]",
		},
		{
			name: "away", status: 200, media: text,
			away: example().Members[1:],
			body: "Updated with federation warnings: [oscar-cluster-b/grayifyr1: SessionLost: no syncer since 2026-11-20T12:58:11Z; " +
				"generation 2 will be applied when it is back]",
		},
		{
			name: "one of each", status: 200, media: text, headers: []string{"Prefer", "respond-async"},
			away: []view.Replica{
				away("a", "failed", "UpdateFailed", "update answered 500"), away("b", "applying", "", ""), away("c", "held", "MarkLost", ""),
				away("d", "wedged", "", ""),
			},
			body: "Updated with federation warnings: [a/svc: UpdateFailed: update answered 500, c/svc: MarkLost, d/svc: wedged]",
		},
		{
			name: "representation", status: 200, media: jsonType, body: literal(t, "replicas.json"),
			away: example().Members[1:], headers: []string{"Prefer", "return=representation"},
		},
		{name: "nobody waits", status: 204, headers: []string{"Prefer", "respond-async"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := newClient(t, &fake{changed: changed(tt.away...)}).do("PUT", "/system/services", service, tt.headers...)
			want(t, resp, tt.status, tt.media, tt.body)
			if got := resp.Header.Get("ETag"); got != `"4711"` {
				t.Errorf("ETag is %s", got)
			}
			if got := resp.Header.Get("Preference-Applied"); len(tt.headers) > 0 && got != tt.headers[1] {
				t.Errorf("Preference-Applied is %q", got)
			}
		})
	}
}

func TestUpdateRequest(t *testing.T) {
	tests := []struct {
		name, query, body string
		headers           []string
		want              federations.ChangeRequest
		cluster           string
	}{
		{"defaults", "", service, nil, federations.ChangeRequest{Wait: 10 * time.Second}, ""},
		{"wait", "?wait=1m", service, nil, federations.ChangeRequest{Wait: time.Minute}, ""},
		{"async", "?wait=1m", service, []string{"Prefer", "respond-async"}, federations.ChangeRequest{}, ""},
		{"revision", "", service, []string{"If-Match", `"4711"`}, federations.ChangeRequest{Wait: 10 * time.Second, IfMatch: 4711}, ""},
		{"cluster", "?cluster_id=b", service, nil, federations.ChangeRequest{Wait: 10 * time.Second}, "b"},
		{
			"the definition names its cluster", "?cluster_id=b", strings.Replace(service, "{", `{"cluster_id":"a",`, 1), nil,
			federations.ChangeRequest{Wait: 10 * time.Second}, "a",
		},
		{
			"the definition names none, as in an FDL", "?cluster_id=b", strings.Replace(service, "{", `{"cluster_id":"default-cluster",`, 1), nil,
			federations.ChangeRequest{Wait: 10 * time.Second}, "b",
		},
		{
			"what a client has read and sends back", "", strings.Replace(service, "{", `{"deployment":{"state":"stopped"},"bucket_list":["b"],"volume_status":{"enabled":true},`, 1), nil,
			federations.ChangeRequest{Wait: 10 * time.Second}, "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{changed: changed()}
			resp := newClient(t, f).do("PUT", "/system/services/"+tt.query, tt.body, tt.headers...)
			if resp.StatusCode != 204 {
				t.Fatalf("%d %s", resp.StatusCode, bodyOf(t, resp))
			}
			got := f.only(t)
			req := got.args.(federations.ChangeRequest)
			if got.name != "ChangeService" || req.RequestID != resp.Header.Get("X-Request-ID") || req.Service.Name != "grayifyr0" || req.Service.ClusterID != tt.cluster {
				t.Errorf("got %+v", got)
			}
			if s := req.Service; s.Deployment != nil || s.BucketList != nil || s.VolumeStatus.Enabled {
				t.Errorf("it sets %s, %q, %+v", s.Deployment, s.BucketList, s.VolumeStatus)
			}
			req.RequestID, req.Service = "", nil
			if diff := cmp.Diff(tt.want, req); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUpdateRefusals(t *testing.T) {
	worker := &fault.Error{
		Code: fault.CodeConflict, Candidates: []string{"oscar-cluster-a"},
		Message: `service "grayifyr1" is a member of federation "grayifyr0"; change its coordinator oscar-cluster-a/grayifyr0`,
	}
	stale := &fault.Error{Code: fault.CodeConflict, Message: "changed since"}
	tests := []struct {
		name    string
		err     error
		body    string
		headers []string
		status  int
		text    string
	}{
		{"unknown", &fault.Error{Code: fault.CodeNotFound, Message: "x"}, service, nil, 404, ""},
		{"a member", worker, service, nil, 409, worker.Message + "\noscar-cluster-a"},
		{"a member, with a revision", worker, service, []string{"If-Match", `"1"`}, 409, worker.Message + "\noscar-cluster-a"},
		{"stale", stale, service, []string{"If-Match", `"1"`}, 412, "changed since"},
		{"in flight", stale, service, nil, 409, "changed since"},
		{"unknown outcome", &fault.Error{Code: fault.CodeUnknownOutcome, Message: "who knows"}, service, nil, 504, "who knows\nsee /system/replicas/grayifyr0"},
		{"no JSON", nil, `{`, nil, 400, "The service specification is not valid: the service is not valid JSON at byte 1: unexpected end of JSON input"},
		{
			"violations", nil, `{"name":"a","cpu":1}`, nil, 400,
			"The service specification is not valid: 4 violations\n",
		},
		{
			"its own", &fault.Error{Code: fault.CodeInvalid, Violations: []oscar.Violation{{Path: "federation.topology", Rule: "one_of", Message: "m"}}},
			service, nil, 400, "The service specification is not valid: 1 violation\nfederation.topology: m",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := newClient(t, &fake{err: tt.err}).do("PUT", "/system/services", tt.body, tt.headers...)
			got := bodyOf(t, resp)
			if resp.StatusCode != tt.status || got != tt.text && (!strings.HasSuffix(tt.text, "\n") || !strings.HasPrefix(got, tt.text)) {
				t.Errorf("answered %d %q", resp.StatusCode, got)
			}
		})
	}
}

// The no of an added member is the answer, and says that nothing is changed.
func TestARefusedAdditionSaysWhoAndThatNothingIsChanged(t *testing.T) {
	e := failedCreate()
	e.Code, e.Message = fault.CodeAlreadyExists, ""
	e.Failed.Phase, e.Failed.Rollback = record.PhaseAborted, "not_needed"
	for i := range e.Failed.Replicas {
		e.Failed.Replicas[i].Rollback = v1.Rollback{State: "not_needed"}
	}
	e.Failed.Replicas[1].Cause = &v1.Cause{Reason: "ForeignBucket", Operation: "vote", Message: `the bucket "in" exists and is not ours`}
	e.Failed.Replicas[2].Cause = &v1.Cause{Reason: "NameTaken", Operation: "vote", Message: "the name is taken"}
	for route, body := range map[string]string{
		"PUT /system/services":              service,
		"POST /system/federation/grayifyr0": `[{"cluster_id":"a","service_name":"svc"}]`,
		"POST /system/replicas/grayifyr0":   `{"replicas":[{"cluster_id":"a","service_name":"svc"}]}`,
	} {
		c := newClient(t, &fake{err: e, clusters: registered("a")})
		method, path, _ := strings.Cut(route, " ")
		p := problemOf(t, c.do(method, path, body, "Accept", problemType))
		if p.Status != 409 || p.Phase != "aborted" || len(p.Replicas) != 3 || p.Title != "The federation is not changed, since a cluster did not agree" {
			t.Errorf("%s: got %+v", route, p)
		}
		if strings.Contains(path, "replicas") {
			continue
		}
		want(t, c.do(method, path, body), 409, text,
			"Federation not changed: oscar-cluster-b/grayifyr1: ForeignBucket: the bucket \"in\" exists and is not ours\n"+
				"oscar-cluster-c/grayifyr2: not needed: the name is taken")
	}
}

// TestAChangeThatIsBoundToARevisionIsNotDoneToAnother: where If-Match is not looked at it is refused, and not left out.
func TestAChangeThatIsBoundToARevisionIsNotDoneToAnother(t *testing.T) {
	for _, to := range []struct{ method, path, body string }{
		{"PUT", "/system/replicas/svc/paused", `{"paused":true}`},
		{"POST", "/system/replicas/svc/rotate-token", ""},
		{"PUT", "/system/replicas/svc/refresh-token", "token"},
		{"DELETE", "/system/replicas/svc/refresh-token", ""},
		{"POST", "/system/services/svc/start", ""},
		{"POST", "/system/services/svc/stop", ""},
		{"POST", "/system/services/svc/restart", ""},
		{"PUT", "/system/clusters/a/state", `{"state":"active"}`},
	} {
		f := &fake{err: &fault.Error{Code: fault.CodeNotFound, Message: "it was asked"}}
		c := newClient(t, f)
		if p := problemOf(t, c.do(to.method, to.path, to.body, "If-Match", `"7"`, "Accept", "application/problem+json")); p.Status != 400 || len(p.Violations) != 1 || p.Violations[0].Path != "If-Match" {
			t.Errorf("%s %s: %+v", to.method, to.path, p)
		}
		if len(f.calls) > 0 {
			t.Errorf("%s %s was done: %+v", to.method, to.path, f.calls)
		}
		if resp := c.do(to.method, to.path, to.body, "If-Match", "*"); resp.StatusCode != 404 {
			t.Errorf("%s %s of whatever there is: %d", to.method, to.path, resp.StatusCode)
		}
	}
}

// TestAPauseSaysWhetherItBeginsOrEnds: a body without the word ended it.
func TestAPauseSaysWhetherItBeginsOrEnds(t *testing.T) {
	for _, body := range []string{`{}`, `{"pause":true}`, `{"paused":null}`} {
		f := &fake{}
		if p := problemOf(t, newClient(t, f).do("PUT", "/system/replicas/svc/paused", body)); p.Status != 400 || len(p.Violations) != 1 || p.Violations[0].Path != "paused" || len(f.calls) > 0 {
			t.Errorf("%s: %+v, %+v", body, p, f.calls)
		}
	}
}

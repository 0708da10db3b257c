package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
)

func registered(ids ...string) []clusters.Cluster {
	out := make([]clusters.Cluster, len(ids))
	for i, id := range ids {
		out[i] = clusters.Cluster{Cluster: v1.Cluster{ClusterID: id, State: "active"}}
	}
	return out
}

func member(cluster, name string) oscar.Member {
	return oscar.Member{Type: "oscar", ClusterID: cluster, ServiceName: name}
}

func pair(from, to oscar.Member) federations.Replacement {
	return federations.Replacement{From: from, To: to}
}

// asked is the one change that was asked for; the other calls only read.
func (f *fake) asked(t *testing.T) (string, federations.ReplicasRequest) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []call
	for _, c := range f.calls {
		if strings.HasPrefix(c.name, "ChangeReplicas") {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d changes were asked for: %+v", len(found), f.calls)
	}
	return found[0].name, found[0].args.(federations.ReplicasRequest)
}

func (f *fake) unasked(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if strings.HasPrefix(c.name, "Change") {
			t.Errorf("a change was asked for: %+v", c)
		}
	}
}

const (
	b1 = `{"type":"oscar","cluster_id":"b","service_name":"svc1"}`
	c1 = `{"cluster_id":"c","service_name":"svc2"}`
)

func TestReplicasRequests(t *testing.T) {
	typeless := oscar.Member{ClusterID: "c", ServiceName: "svc2"}
	weighted := member("b", "svc1")
	weighted.Priority, weighted.Weight = 7, new(3)
	tests := []struct {
		name, method, query, body string
		headers                   []string
		want                      federations.ReplicasRequest
	}{
		{"add", "POST", "", `{"replicas":[` + b1 + `,` + c1 + `]}`, nil, federations.ReplicasRequest{Add: []oscar.Member{member("b", "svc1"), typeless}}},
		{
			"add to one of several", "POST", "?cluster_id=a&wait=30s", `{"Replicas":[` + b1 + `]}`, []string{"If-Match", `W/"12"`},
			federations.ReplicasRequest{ClusterID: "a", Add: []oscar.Member{member("b", "svc1")}, Wait: 30 * time.Second, IfMatch: 12},
		},
		{
			"replace", "PUT", "", `{"replicas":[` + b1 + `],"update":[` + c1 + `]}`, nil,
			federations.ReplicasRequest{Replace: []federations.Replacement{pair(member("b", "svc1"), typeless)}},
		},
		{
			"replace pairs", "PUT", "", `{"replicas":[` + b1 + `,` + c1 + `],"update":[` + c1 + `,` + b1 + `]}`, nil,
			federations.ReplicasRequest{Replace: []federations.Replacement{pair(member("b", "svc1"), typeless), pair(typeless, member("b", "svc1"))}},
		},
		{
			"settings by replicas", "PUT", "", `{"replicas":[{"type":"oscar","cluster_id":"b","service_name":"svc1","priority":7,"weight":3}],"update":[]}`, nil,
			federations.ReplicasRequest{Replace: []federations.Replacement{pair(weighted, weighted)}},
		},
		{
			"settings by update", "PUT", "", `{"replicas":null,"update":[{"type":"oscar","cluster_id":"b","service_name":"svc1","priority":7,"weight":3}]}`, nil,
			federations.ReplicasRequest{Replace: []federations.Replacement{pair(weighted, weighted)}},
		},
		{"remove", "DELETE", "", `{"replicas":[` + b1 + `]}`, nil, federations.ReplicasRequest{Remove: []oscar.Member{member("b", "svc1")}}},
		{
			"remove one twice", "DELETE", "?cluster_id=a", `{"replicas":[` + b1 + `,` + b1 + `]}`, nil,
			federations.ReplicasRequest{ClusterID: "a", Remove: []oscar.Member{member("b", "svc1"), member("b", "svc1")}},
		},
		{
			"remove from a cluster that is no more", "DELETE", "", `{"replicas":[{"cluster_id":"gone","service_name":"svc1"}]}`, nil,
			federations.ReplicasRequest{Remove: []oscar.Member{{ClusterID: "gone", ServiceName: "svc1"}}},
		},
		{
			"remove by the query", "DELETE", "?cluster_id=b&service_name=svc1&wait=5", "", []string{"If-Match", "*"},
			federations.ReplicasRequest{Remove: []oscar.Member{member("b", "svc1")}, Wait: 5 * time.Second},
		},
		{"remove all", "DELETE", "?all=true&cluster_id=a", "", nil, federations.ReplicasRequest{RemoveAll: true, ClusterID: "a"}},
		{"nobody waits", "DELETE", "?all=true&wait=5s", "", []string{"Prefer", "respond-async"}, federations.ReplicasRequest{RemoveAll: true}},
		{
			"upstream's clusters", "POST", "", `{"replicas":[` + b1 + `],"clusters":{"c":{"endpoint":"https://c","auth_user":"u","auth_password":"canary"},"a":null},"storage_providers":{"x":1}}`, nil,
			federations.ReplicasRequest{Add: []oscar.Member{member("b", "svc1")}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{changed: changed(), clusters: registered("a", "b", "c")}
			resp := newClient(t, f).do(tt.method, "/system/replicas/svc"+tt.query, tt.body, tt.headers...)
			want(t, resp, 200, jsonType, literal(t, "replicas.json"))
			if got := resp.Header.Get("ETag"); got != `"4711"` {
				t.Errorf("ETag is %s", got)
			}
			name, got := f.asked(t)
			if name != "ChangeReplicas svc" || got.RequestID != resp.Header.Get("X-Request-ID") {
				t.Errorf("asked %s %+v", name, got)
			}
			got.RequestID, got.List = "", ""
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReplicasRefusals(t *testing.T) {
	tests := []struct {
		name, method, query, body string
		// paths of the violations, with their rules.
		want string
	}{
		{"nobody to add", "POST", "", `{}`, "replicas required"},
		{"null", "POST", "", `null`, "replicas required"},
		{"an empty list", "POST", "", `{"replicas":[]}`, "replicas required"},
		{"the list of OSCAR's path", "POST", "", `{"members":[` + b1 + `]}`, "replicas required"},
		{"no body", "POST", "", "", " type"},
		{"no JSON", "POST", "", `{"replicas":`, " type"},
		{"a bare array", "POST", "", `[` + b1 + `]`, " type"},
		{"no list", "POST", "", `{"replicas":7}`, "replicas type"},
		{"types", "POST", "", `{"replicas":[{"cluster_id":1,"service_name":"svc","priority":"high"}]}`, "replicas[0].cluster_id type, replicas[0].priority type"},
		{"incomplete", "POST", "", `{"replicas":[{"cluster_id":"b"},{"service_name":"svc"},{"type":"endpoint"}]}`,
			"replicas[0].service_name required, replicas[1].cluster_id required, replicas[2].url required"},
		{"twice", "POST", "", `{"replicas":[` + b1 + `,` + b1 + `]}`, "replicas[1] unique"},
		{"unknown clusters", "POST", "", `{"replicas":[` + b1 + `,{"cluster_id":"z","service_name":"svc"}],"clusters":{"b":{},"y":{"auth_password":"canary"},"..":{}}}`,
			`replicas[1].cluster_id known_cluster, clusters[".."] known_cluster, clusters.y known_cluster`},
		{"clusters that are none", "POST", "", `{"replicas":[` + b1 + `],"clusters":["b"]}`, "clusters type"},
		{"nothing to replace", "PUT", "", `{"replicas":[],"update":null}`, "replicas required"},
		{"no pairs", "PUT", "", `{"replicas":[` + b1 + `,` + c1 + `],"update":[` + c1 + `]}`, "update max_members"},
		{"an unknown cluster in update", "PUT", "", `{"replicas":[{"cluster_id":"z","service_name":"svc"}],"update":[{"cluster_id":"y","service_name":"svc"}]}`,
			"update[0].cluster_id known_cluster"},
		{"both at once", "PUT", "", `{"replicas":[{}],"update":[7]}`, "update[0] type, replicas[0].cluster_id required, replicas[0].service_name required"},
		{"no order", "DELETE", "", "", "replicas required"},
		{"no order but where", "DELETE", "?cluster_id=a", "", "replicas required"},
		{"an empty order", "DELETE", "", `{"replicas":[]}`, "replicas required"},
		{"not all", "DELETE", "?all=false", "", "replicas required"},
		{"all, or not", "DELETE", "?all=yes", "", "replicas required, ?all one_of"},
		{"a name without its cluster", "DELETE", "?service_name=svc1", "", "?cluster_id required"},
		{"all and one", "DELETE", "?all=true&service_name=svc1&cluster_id=b", "", "replicas unique"},
		{"all and a body", "DELETE", "?all=true", `{"replicas":[` + b1 + `]}`, "replicas unique"},
		{"one and a body", "DELETE", "?cluster_id=b&service_name=svc1", `{}`, "replicas unique"},
		{"a body that cannot be read", "DELETE", "?all=true", `{`, " type"},
		{"a member that is none", "DELETE", "", `{"replicas":[{"type":"ring"}]}`, "replicas[0].type one_of"},
		{"wait", "DELETE", "?all=true&wait=long", "", "?wait quantity"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{changed: changed(), clusters: registered("a", "b", "c")}
			p := problemOf(t, newClient(t, f).do(tt.method, "/system/replicas/svc"+tt.query, tt.body))
			var got []string
			for _, v := range p.Violations {
				got = append(got, v.Path+" "+v.Rule)
				if v.Message == "" || contains(fmt.Sprint(v), "canary") {
					t.Errorf("violation %+v", v)
				}
			}
			if p.Status != 400 || p.Code != "invalid" || strings.Join(got, ", ") != tt.want {
				t.Errorf("got %d %q, want %q; %+v", p.Status, strings.Join(got, ", "), tt.want, p.Violations)
			}
			f.unasked(t)
		})
	}
}

func TestIfMatch(t *testing.T) {
	tests := []struct {
		values  []string
		status  int
		ifMatch int64
	}{
		{nil, 200, 0},
		{[]string{`"4711"`}, 200, 4711},
		{[]string{`W/"4711"`}, 200, 4711},
		{[]string{` "4711" `}, 200, 4711},
		{[]string{"*"}, 200, 0},
		{[]string{`"9223372036854775807"`}, 200, 1<<63 - 1},
		// Tags that no federation has.
		{[]string{`"0"`}, 412, 0},
		{[]string{`"-1"`}, 412, 0},
		{[]string{`"+1"`}, 412, 0},
		{[]string{`"01"`}, 412, 0},
		{[]string{`""`}, 412, 0},
		{[]string{`"abc"`}, 412, 0},
		{[]string{`"9223372036854775808"`}, 412, 0},
		{[]string{`W/"abc"`}, 412, 0},
		// No tags.
		{[]string{""}, 400, 0},
		{[]string{"4711"}, 400, 0},
		{[]string{`"4711`}, 400, 0},
		{[]string{`"`}, 400, 0},
		{[]string{"W/*"}, 400, 0},
		{[]string{`"1", "2"`}, 400, 0},
		{[]string{`"1"`, `"2"`}, 400, 0},
	}
	for _, route := range []string{"PUT /system/services", "POST /system/replicas/svc", "PUT /system/replicas/svc", "DELETE /system/replicas/svc", "DELETE /system/federation/svc"} {
		method, path, _ := strings.Cut(route, " ")
		for _, tt := range tests {
			f := &fake{changed: changed(), clusters: registered("b")}
			body := `{"replicas":[` + b1 + `]}`
			if path == "/system/services" {
				body = service
			}
			c := newClient(t, f)
			resp := c.send(method, path, body, func(h http.Header) {
				if tt.values != nil {
					h["If-Match"] = tt.values
				}
			})
			status := tt.status
			if path == "/system/services" && status == 200 {
				status = 204
			}
			if resp.StatusCode != status {
				t.Errorf("%s %q: %d %s", route, tt.values, resp.StatusCode, bodyOf(t, resp))
				continue
			}
			if status >= 400 {
				f.unasked(t)
				continue
			}
			var got int64
			switch req := f.calls[len(f.calls)-1].args.(type) {
			case federations.ChangeRequest:
				got = req.IfMatch
			case federations.ReplicasRequest:
				got = req.IfMatch
			}
			if got != tt.ifMatch {
				t.Errorf("%s %q: asked for revision %d", route, tt.values, got)
			}
		}
	}
}

func TestAConflictOfAChangeIsAPreconditionThatFailed(t *testing.T) {
	f := &fake{err: &fault.Error{Code: fault.CodeConflict, Message: "changed since"}}
	c := newClient(t, f)
	for given, status := range map[string]int{"": 409, `"7"`: 412, "*": 412} {
		if p := problemOf(t, c.do("DELETE", "/system/replicas/svc?all=true", "", "If-Match", given)); p.Status != status || p.Code != "conflict" || p.Detail != "changed since" {
			t.Errorf("%q: got %+v", given, p)
		}
	}
}

// An outcome that is not known says where it can be looked up.
func TestAnUnknownChangeHasALocation(t *testing.T) {
	c := newClient(t, &fake{err: &fault.Error{Code: fault.CodeUnknownOutcome, Message: "m"}})
	resp := c.do("DELETE", "/system/replicas/svc?all=true", "")
	if p := problemOf(t, resp); p.Status != 504 || p.Instance != "/system/replicas/svc" || resp.Header.Get("Location") != "/system/replicas/svc" {
		t.Errorf("got %+v", p)
	}
}

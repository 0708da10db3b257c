package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

// sent is a member as oscar-cli sends it.
const sent = `{"type":"oscar","cluster_id":"b","service_name":"svc1","url":"","ssl_verify":true,"priority":3,"headers":null}`

func asSent() oscar.Member {
	return oscar.Member{Type: "oscar", ClusterID: "b", ServiceName: "svc1", SSLVerify: new(true), Priority: 3}
}

// asShown is the example's member b in OSCAR's exact form.
const asShown = `{"topology":"mesh","members":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"grayifyr1","url":"","ssl_verify":false,"priority":0,"headers":null}]}`

func TestMembersAreShownAsByOSCAR(t *testing.T) {
	tests := []struct {
		name string
		view func(v *view.Replicas)
		want string
	}{
		{"mesh", func(*view.Replicas) {}, asShown},
		{"tree is OSCAR's star", func(v *view.Replicas) { v.Topology = "tree" }, strings.Replace(asShown, "mesh", "star", 1)},
		{
			"a worker of a star sees nobody",
			func(v *view.Replicas) { v.Topology, v.Self, v.Sees = "tree", 1, nil },
			`{"topology":"star","members":null}`,
		},
		{
			"a star without members",
			func(v *view.Replicas) { v.Topology, v.Members, v.Sees = "star", v.Members[:1], nil },
			`{"topology":"star","members":null}`,
		},
		{
			"all members have gone",
			func(v *view.Replicas) { v.Members, v.Sees = v.Members[:1], nil },
			`{"topology":"mesh","members":null}`,
		},
		{
			"replicas that do not know each other",
			func(v *view.Replicas) { v.Topology, v.Sees = "none", nil },
			`{"topology":"none","members":null}`,
		},
		{
			"an endpoint, and what was given",
			func(v *view.Replicas) {
				v.Topology = "star"
				v.Members = append(v.Members,
					view.Replica{Type: "endpoint", URL: "https://far.example.org/a?b=c&d=e", Priority: 9},
					view.Replica{Type: "oscar", ClusterID: "c", ServiceName: "s", SSLVerify: new(true)})
				v.Sees = []int{2, 3}
			},
			`{"topology":"star","members":[{"type":"endpoint","cluster_id":"","service_name":"","url":"https://far.example.org/a?b=c\u0026d=e","ssl_verify":true,"priority":9,"headers":null},` +
				`{"type":"oscar","cluster_id":"c","service_name":"s","url":"","ssl_verify":true,"priority":0,"headers":null}]}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{replicas: func() *view.Replicas {
				v := changed().Replicas
				tt.view(&v)
				return &v
			}}
			resp := newClient(t, f).do("GET", "/system/federation/grayifyr0?cluster_id=oscar-cluster-a", "")
			want(t, resp, 200, jsonType, tt.want)
			if got := f.only(t); got.args != (target{"grayifyr0", "oscar-cluster-a"}) || resp.Header.Get("ETag") != `"4711"` {
				t.Errorf("asked for %+v, ETag %q", got, resp.Header.Get("ETag"))
			}
		})
	}
	want(t, newClient(t, &fake{err: &fault.Error{Code: fault.CodeNotFound, Message: "m"}}).do("GET", "/system/federation/x", ""), 404, "", "")
}

// Every form that OSCAR's clients have sent over their history.
func TestFederationForms(t *testing.T) {
	short := oscar.Member{ClusterID: "c", ServiceName: "svc2"}
	upper := asSent()
	upper.Type = "OSCAR"
	tests := []struct {
		name, method, query, body string
		// want is nil when nothing is asked for.
		want *federations.ReplicasRequest
	}{
		{"oldest", "POST", "", `[` + sent + `]`, &federations.ReplicasRequest{Add: []oscar.Member{asSent()}}},
		{"oldest, with spaces", "POST", "", "\n\t [" + sent + "," + c1 + "]\n", &federations.ReplicasRequest{Add: []oscar.Member{asSent(), short}}},
		{"members", "POST", "", `{"members":[` + sent + `]}`, &federations.ReplicasRequest{Add: []oscar.Member{asSent()}}},
		{"any case", "POST", "", `{"Members":[` + strings.Replace(sent, `"oscar"`, `"OSCAR"`, 1) + `]}`, &federations.ReplicasRequest{Add: []oscar.Member{upper}}},
		{
			"everything of upstream", "POST", "?wait=20s",
			`{"members":[` + sent + `],"update":[],"clusters":{"b":{"endpoint":"https://b","auth_user":"u","auth_password":"p","ssl_verify":true}},"storage_providers":{"minio":{}},"delete":false}`,
			&federations.ReplicasRequest{Add: []oscar.Member{asSent()}, Wait: 20 * time.Second},
		},
		{"nobody", "POST", "", `{"members":null}`, nil},
		{"nobody, oldest", "POST", "", `[]`, nil},
		{"clusters alone", "POST", "", `{"clusters":{"b":{}}}`, nil},

		{"oldest", "PUT", "", `[` + sent + `]`, &federations.ReplicasRequest{Replace: []federations.Replacement{pair(asSent(), asSent())}}},
		{"members without update", "PUT", "", `{"members":[` + sent + `]}`, &federations.ReplicasRequest{Replace: []federations.Replacement{pair(asSent(), asSent())}}},
		{"update without members", "PUT", "", `{"members":null,"update":[` + sent + `]}`, &federations.ReplicasRequest{Replace: []federations.Replacement{pair(asSent(), asSent())}}},
		{"members and update", "PUT", "", `{"members":[` + sent + `],"update":[` + c1 + `]}`, &federations.ReplicasRequest{Replace: []federations.Replacement{pair(asSent(), short)}}},
		{"neither", "PUT", "", `{}`, nil},
		{"neither, oldest", "PUT", "", `[]`, nil},
		{"neither, null", "PUT", "", `{"members":null,"update":null}`, nil},

		{"no body", "DELETE", "", "", &federations.ReplicasRequest{RemoveAll: true}},
		{"only spaces", "DELETE", "", " \n", &federations.ReplicasRequest{RemoveAll: true}},
		{"no members", "DELETE", "?cluster_id=a", `{}`, &federations.ReplicasRequest{RemoveAll: true, ClusterID: "a"}},
		{"null members", "DELETE", "", `{"members":null,"delete":true}`, &federations.ReplicasRequest{RemoveAll: true}},
		{"empty members", "DELETE", "", `{"members":[]}`, &federations.ReplicasRequest{RemoveAll: true}},
		{"some", "DELETE", "", `{"members":[` + sent + `]}`, &federations.ReplicasRequest{Remove: []oscar.Member{asSent()}}},
		{"some, and delete", "DELETE", "", `{"members":[` + sent + `],"delete":true}`, &federations.ReplicasRequest{Remove: []oscar.Member{asSent()}}},
		{"some twice", "DELETE", "", `{"members":[` + sent + `,` + sent + `]}`, &federations.ReplicasRequest{Remove: []oscar.Member{asSent(), asSent()}}},
		{"some, oldest", "DELETE", "", `[` + sent + `]`, &federations.ReplicasRequest{Remove: []oscar.Member{asSent()}}},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.name, func(t *testing.T) {
			f := &fake{changed: changed(), clusters: registered("a", "b", "c"), replicas: func() *view.Replicas { return &changed().Replicas }}
			resp := newClient(t, f).do(tt.method, "/system/federation/svc"+tt.query, tt.body)
			want(t, resp, 200, jsonType, asShown)
			if tt.want == nil {
				f.unasked(t)
				return
			}
			name, got := f.asked(t)
			if name != "ChangeReplicas svc" || got.RequestID != resp.Header.Get("X-Request-ID") {
				t.Errorf("asked %s %+v", name, got)
			}
			got.RequestID, got.List = "", ""
			if diff := cmp.Diff(*tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFederationRefusals(t *testing.T) {
	tests := []struct {
		name, method, body string
		err                error
		status             int
		text               string
	}{
		{"no body", "POST", "", nil, 400, "Invalid payload: EOF"},
		{"no body", "PUT", " ", nil, 400, "Invalid payload: EOF"},
		{"no JSON", "POST", "{", nil, 400, "Invalid payload: unexpected end of JSON input"},
		{"no JSON", "DELETE", "[{", nil, 400, "Invalid payload: the list is not valid JSON at byte 2: unexpected end of JSON input"},
		{"a string", "DELETE", `"all"`, nil, 400, "Invalid payload: a JSON string stands where an object belongs"},
		{"a member that is none", "POST", `[7]`, nil, 400, "Invalid payload: 1 violation\n[0]: "},
		{"incomplete", "PUT", `{"members":[{"service_name":"svc"}]}`, nil, 400, "Invalid payload: 1 violation\nmembers[0].cluster_id: members[0].cluster_id is missing"},
		{"no pairs", "PUT", `{"members":[` + sent + `],"update":[` + sent + `,` + c1 + `]}`, nil, 400,
			"Invalid payload: 1 violation\nupdate: update has 2 members and members has 1; give as many"},
		{"unknown clusters", "POST", `{"members":[{"cluster_id":"z","service_name":"svc"}],"clusters":{"y":{}}}`, nil, 400,
			"Invalid payload: 2 violations\nmembers[0].cluster_id: cluster \"z\" is not registered; known: a, b, c\nclusters.y: cluster \"y\" is not registered"},
		{"an unknown cluster in the oldest form", "POST", `[{"cluster_id":"z","service_name":"svc"}]`, nil, 400,
			"Invalid payload: 1 violation\n[0].cluster_id: cluster \"z\" is not registered"},
		{"clusters in an order", "DELETE", `{"clusters":{"y":{}}}`, nil, 400, "Invalid payload: 1 violation\nclusters.y: cluster \"y\""},
		{"unknown service", "DELETE", "", &fault.Error{Code: fault.CodeNotFound, Message: "m"}, 404, ""},
		{"not his", "DELETE", "", &fault.Error{Code: fault.CodeForbidden, Message: "only its owner"}, 403, "only its owner"},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.name, func(t *testing.T) {
			f := &fake{err: tt.err, changed: changed(), clusters: registered("a", "b", "c")}
			resp := newClient(t, f).do(tt.method, "/system/federation/svc", tt.body)
			if got := bodyOf(t, resp); resp.StatusCode != tt.status || !strings.HasPrefix(got, tt.text) || (got == "") != (tt.text == "") {
				t.Errorf("answered %d %q", resp.StatusCode, got)
			}
			if tt.err == nil {
				f.unasked(t)
			}
		})
	}
}

// A change of nothing that is bound to a revision still tells that it has passed.
func TestAChangeOfNothingHonoursIfMatch(t *testing.T) {
	f := &fake{replicas: func() *view.Replicas { return &changed().Replicas }}
	c := newClient(t, f)
	for tag, status := range map[string]int{`"4711"`: 200, `"4710"`: 412, "*": 200} {
		if resp := c.do("PUT", "/system/federation/svc", "{}", "If-Match", tag); resp.StatusCode != status {
			t.Errorf("%s: %d %s", tag, resp.StatusCode, bodyOf(t, resp))
		}
	}
	f.unasked(t)
}

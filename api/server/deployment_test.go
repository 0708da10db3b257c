package server_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

// withoutID is what a use case was asked, without the id of the request.
func withoutID(args any) any {
	in, ok := args.(federations.RunStateRequest)
	if ok {
		in.RequestID = ""
	}
	return in
}

// The dashboard asks for each of these, with all its parameters.
func TestTheDashboardShowsHowAFederationStands(t *testing.T) {
	fed := example()
	shown := view.Replicas{Federation: fed}
	f := &fake{
		replicas:    func() *view.Replicas { return &shown },
		federations: []view.Federation{fed},
		services: []*oscar.Service{
			{Name: "grayifyr0", ClusterID: "oscar-cluster-a"}, {Name: "grayifyr1", ClusterID: "oscar-cluster-b"}, {Name: "gone", ClusterID: "oscar-cluster-b"},
		},
	}
	f.service = f.services[0]
	c := newClient(t, f)
	const away = `oscar-cluster-b/grayifyr1: unreachable (SessionLost): no syncer since 2026-11-20T12:58:11Z; generation 2 will be applied when it is back`
	const summary = `"state":"degraded","reason":"` + away + `","last_transition_time":"2026-11-20T13:04:05.120Z","active_instances":1,"affected_instances":1,"resource_kind":"unavailable"}`
	want(t, c.do("GET", "/system/services/grayifyr0/deployment", ""), 200, jsonType, `{"service_name":"grayifyr0",`+summary)
	want(t, c.do("GET", "/system/services/grayifyr0/deployment/logs?timestamps=false&tailLines=200", ""), 200, jsonType,
		`{"service_name":"grayifyr0","available":false,"message":"The control plane reads no log of a deployment; the OSCAR of the cluster does. Those of jobs are at /system/logs/grayifyr0.","entries":[]}`)
	shown.Self = 1
	want(t, c.do("GET", "/system/services/grayifyr1/deployment", ""), 200, jsonType,
		`{"service_name":"grayifyr1","state":"unavailable","reason":"`+away+`","last_transition_time":"2026-11-20T12:58:41.000Z","active_instances":0,"affected_instances":1,"resource_kind":"unavailable"}`)

	list := bodyOf(t, c.do("GET", "/system/services?include=deployment", ""))
	for _, part := range []string{`"name":"grayifyr0"`, `"deployment":{` + summary, `"deployment":{"state":"unavailable"`, `"name":"gone"`} {
		if !contains(list, part) {
			t.Errorf("%s is not in %s", part, list)
		}
	}
	// A client that was told of one cluster (https://control-plane?cluster_id=oscar-cluster-b).
	if list := bodyOf(t, c.do("GET", "/system/services?cluster_id=oscar-cluster-b&include=deployment", "")); contains(list, "grayifyr0\"") ||
		!contains(list, `"name":"grayifyr1"`) || !contains(list, `"name":"gone"`) || !contains(list, `"deployment":{"state":"unavailable"`) {
		t.Errorf("of one cluster: %s", list)
	}
	want(t, c.do("GET", "/system/services?cluster_id=oscar-cluster-z", ""), 200, jsonType, "[]")
	shown.Self, f.services[0].Deployment = 0, nil
	if one := bodyOf(t, c.do("GET", "/system/services/grayifyr0?include=metrics,%20Deployment", "")); !contains(one, `"deployment":{`+summary) {
		t.Errorf("one: %s", one)
	}
	f.services[0].Deployment, f.services[1].Deployment = nil, nil
	for _, path := range []string{"/system/services", "/system/services/grayifyr0", "/system/services?include=", "/system/services?include=deployments"} {
		if got := bodyOf(t, c.do("GET", path, "")); contains(got, `"deployment"`) {
			t.Errorf("%s: %s", path, got)
		}
	}

	want(t, c.do("POST", "/system/services/grayifyr1/stop?cluster_id=oscar-cluster-b&wait=5s", ""), 200, jsonType,
		`{"service_name":"grayifyr0",`+summary)
	if got := f.calls[len(f.calls)-2]; got.name != "SetRunState grayifyr1" ||
		!reflect.DeepEqual(withoutID(got.args), federations.RunStateRequest{Service: "grayifyr1", ClusterID: "oscar-cluster-b", Stop: true, Wait: 5 * time.Second}) {
		t.Errorf("%+v", got)
	}
	if resp := c.do("POST", "/system/services/grayifyr0/start?wait=often", ""); resp.StatusCode != 400 {
		t.Errorf("%d %s", resp.StatusCode, bodyOf(t, resp))
	}

	shown.Phase = "rolled_back"
	want(t, c.do("GET", "/system/services/grayifyr0/deployment", ""), 404, "", "")
	f.err = &fault.Error{Code: fault.CodeNotFound, Message: "there is no service"}
	want(t, c.do("GET", "/system/services/nothing/deployment/logs", ""), 404, "", "")
}

package topology

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

func parse(t *testing.T, data string) *oscar.Service {
	t.Helper()
	s, violations := oscar.ParseService([]byte(data))
	if len(violations) > 0 {
		t.Fatalf("ParseService(%s): %v", data, violations)
	}
	return s
}

// grayify is the service of the example, on clusters a, b and c.
const grayify = `{"name":"grayifyr0","cluster_id":"oscar-cluster-a","image":"ghcr.io/grycap/imagemagick","cpu":"0.5","memory":"0.5Gi","script":"#!/bin/sh\n",` +
	`"federation":{"topology":"mesh","delegation":"random","members":[{"type":"OSCAR","cluster_id":"oscar-cluster-b","service_name":"grayifyr1","priority":2},` +
	`{"cluster_id":"oscar-cluster-c","service_name":"grayifyr2"}]},` +
	`"input":[{"storage_provider":"minio.default","path":"grayifyr0/in"}],"output":[{"storage_provider":"minio.default","path":"grayifyr0/out"}]}`

var three = Env{Clusters: map[string]record.ClusterState{"oscar-cluster-a": "active", "oscar-cluster-b": "paused", "oscar-cluster-c": "active"}}

func graphOf(t *testing.T, s *oscar.Service, env Env) *Graph {
	t.Helper()
	g, violations := FromService(s, env)
	if len(violations) > 0 {
		t.Fatalf("FromService: %v", violations)
	}
	return g
}

func TestFromService(t *testing.T) {
	g := graphOf(t, parse(t, grayify), three)
	want := &Graph{GroupID: "grayifyr0", Topology: "mesh", Delegation: "random", Deployment: "transactional", Drift: "enforce", Nodes: []Node{
		{Member: oscar.Member{Type: "oscar", ClusterID: "oscar-cluster-a", ServiceName: "grayifyr0"}, Coordinator: true},
		{Member: oscar.Member{Type: "oscar", ClusterID: "oscar-cluster-b", ServiceName: "grayifyr1", Priority: 2}},
		{Member: oscar.Member{Type: "oscar", ClusterID: "oscar-cluster-c", ServiceName: "grayifyr2"}},
	}}
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDefaults(t *testing.T) {
	s := parse(t, `{"name":"alone","image":"i","script":"s"}`)
	g := graphOf(t, s, Env{DefaultCluster: "home"})
	want := &Graph{GroupID: "alone", Topology: "none", Delegation: "static", Deployment: "transactional", Drift: "enforce", Nodes: []Node{
		{Member: oscar.Member{Type: "oscar", ClusterID: "home", ServiceName: "alone"}, Coordinator: true}}}
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.ClusterID != "" {
		t.Error("the service was changed")
	}
	if edges := g.Edges(); len(edges) != 0 || edges == nil {
		t.Errorf("edges of a federation of one: %v", edges)
	}
}

func TestEdges(t *testing.T) {
	const a, b, c = "oscar-cluster-a/grayifyr0", "oscar-cluster-b/grayifyr1", "oscar-cluster-c/grayifyr2"
	star := [][2]string{{a, b}, {a, c}}
	for topology, want := range map[string][][2]string{
		"none": {}, "star": star, "tree": star, "mesh": {{a, b}, {a, c}, {b, a}, {b, c}, {c, a}, {c, b}},
	} {
		g := graphOf(t, parse(t, strings.Replace(grayify, `"mesh"`, `"`+topology+`"`, 1)), three)
		if diff := cmp.Diff(want, g.Edges()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", topology, diff)
		}
		if g.Topology != topology || g.Canonical() != strings.Replace(topology, "tree", "star", 1) {
			t.Errorf("%s is shown as %s and %s", topology, g.Topology, g.Canonical())
		}
	}
}

func TestEndpointsAreListedAndListNobody(t *testing.T) {
	g := graphOf(t, parse(t, strings.Replace(grayify, `{"cluster_id":"oscar-cluster-c","service_name":"grayifyr2"}`, `{"type":"endpoint","url":"https://e/1"}`, 1)), three)
	want := [][2]string{{"oscar-cluster-a/grayifyr0", "oscar-cluster-b/grayifyr1"}, {"oscar-cluster-a/grayifyr0", "https://e/1"},
		{"oscar-cluster-b/grayifyr1", "oscar-cluster-a/grayifyr0"}, {"oscar-cluster-b/grayifyr1", "https://e/1"}}
	if diff := cmp.Diff(want, g.Edges()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(g.Replicas()); n != 2 {
		t.Errorf("%d replicas", n)
	}
	for _, i := range []int{-1, 2, 3} {
		if sees := g.Sees(i); sees == nil || len(sees) != 0 {
			t.Errorf("node %d sees %v", i, sees)
		}
	}
}

func TestClusterRules(t *testing.T) {
	clusters := map[string]record.ClusterState{"oscar-cluster-c": "active", "oscar-cluster-a": "active", "old": "removing", "oscar-cluster-b": "cordoned"}
	const known = "; known: oscar-cluster-a, oscar-cluster-c"
	const hint = ". oscar-cli sends the name that it knows this endpoint by: add it there under the name of a cluster"
	service := func(cluster string, members ...string) string {
		list := []string{}
		for i, m := range members {
			list = append(list, fmt.Sprintf(`{"cluster_id":%q,"service_name":"svc%d"}`, m, i))
		}
		return fmt.Sprintf(`{"name":"svc","image":"i","script":"s","cluster_id":%q,"federation":{"members":[%s]}}`, cluster, strings.Join(list, ","))
	}
	tests := []struct {
		name, in string
		env      Env
		want     []oscar.Violation
	}{
		{"unknown, cordoned and removing at once", service("oscar-cluster-a", "oscar-cluster-z", "oscar-cluster-b", "old", "oscar-cluster-c"), Env{Clusters: clusters}, []oscar.Violation{
			{Path: "federation.members[0].cluster_id", Rule: "known_cluster", Value: "oscar-cluster-z", Message: `cluster "oscar-cluster-z" is not registered` + known},
			{Path: "federation.members[1].cluster_id", Rule: "known_cluster", Value: "oscar-cluster-b", Message: `cluster "oscar-cluster-b" is cordoned and takes no new replicas; uncordon it or choose another one` + known},
			{Path: "federation.members[2].cluster_id", Rule: "known_cluster", Value: "old", Message: `cluster "old" is being removed and takes no new replicas; choose another one` + known}}},
		{"unknown coordinator", service("oscar-cluster-z"), Env{Clusters: clusters}, []oscar.Violation{
			{Path: "cluster_id", Rule: "known_cluster", Value: "oscar-cluster-z", Message: `cluster "oscar-cluster-z" is not registered` + known + hint}}},
		{"unknown coordinator, with a default", service("fed"), Env{DefaultCluster: "oscar-cluster-a", Clusters: clusters}, []oscar.Violation{
			{Path: "cluster_id", Rule: "known_cluster", Value: "fed", Message: `cluster "fed" is not registered` + known + hint + ", or as default-cluster"}}},
		{"unknown default", service(""), Env{DefaultCluster: "oscar-cluster-z", Clusters: clusters}, []oscar.Violation{
			{Path: "cluster_id", Rule: "known_cluster", Value: "oscar-cluster-z", Message: `cluster "oscar-cluster-z" is not registered` + known + `; it is the default cluster: name another one in cluster_id`}}},
		{"no cluster at all", service(""), Env{Clusters: clusters}, []oscar.Violation{
			{Path: "cluster_id", Rule: "required", Message: "cluster_id is missing and there is no default cluster; name the coordinator's cluster" + known}}},
		{"nothing registered", service("a"), Env{Clusters: map[string]record.ClusterState{}}, []oscar.Violation{
			{Path: "cluster_id", Rule: "known_cluster", Value: "a", Message: `cluster "a" is not registered; no cluster is registered that takes replicas`}}},
		{"not checked", service("a", "b", "c"), Env{}, nil},
		{"the member is the default cluster's coordinator", strings.Replace(service("", "oscar-cluster-a"), "svc0", "svc", 1), Env{DefaultCluster: "oscar-cluster-a", Clusters: clusters}, []oscar.Violation{
			{Path: "federation.members[0]", Rule: "no_self", Value: "oscar-cluster-a/svc", Message: `"oscar-cluster-a/svc" is the coordinator itself; a service is not a member of its own federation's list; remove the entry`}}},
		{"v3", `{"name":"svc","image":"i","script":"s","cluster_id":"oscar-cluster-a","replicas":[{"cluster_id":"oscar-cluster-z","service_name":"svc"}]}`, Env{Clusters: clusters}, []oscar.Violation{
			{Path: "replicas[0].cluster_id", Rule: "known_cluster", Value: "oscar-cluster-z", Message: `cluster "oscar-cluster-z" is not registered` + known}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			g, got := FromService(parse(t, tc.in), tc.env)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (g == nil) != (len(tc.want) > 0) {
				t.Errorf("graph %v with %d violations", g, len(got))
			}
		})
	}
}

func TestRulesOfServiceAndGraphInOneAnswer(t *testing.T) {
	s, parsed := oscar.ParseService([]byte(`{"name":"X!","cpu":1,"federation":{"topology":"ring","members":[{"cluster_id":"z","service_name":"svc"},{"cluster_id":"z","service_name":"svc"}]}}`))
	_, more := FromService(s, three)
	got := map[string]int{}
	for _, v := range append(parsed, more...) {
		got[v.Path+" "+v.Rule]++
	}
	want := map[string]int{"cpu type": 1, "name name": 1, "image required": 1, "script required": 1, "federation.topology one_of": 1,
		"federation.members[1] unique": 1, "cluster_id required": 1, "federation.members[0].cluster_id known_cluster": 1, "federation.members[1].cluster_id known_cluster": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if g, violations := FromService(nil, three); g != nil || len(violations) != 1 {
		t.Errorf("a graph of nothing: %v, %v", g, violations)
	}
}

func TestALongListOfClustersIsCutInMessages(t *testing.T) {
	clusters := map[string]record.ClusterState{}
	for i := range 30 {
		clusters[fmt.Sprintf("c%02d", i)] = "active"
	}
	_, violations := FromService(parse(t, `{"name":"svc","image":"i","script":"s","cluster_id":"z"}`), Env{Clusters: clusters})
	if len(violations) != 1 || !strings.Contains(violations[0].Message, "c18, c19 and 10 more.") {
		t.Errorf("%v", violations)
	}
}

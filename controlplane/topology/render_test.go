package topology

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/oscar"
)

var (
	mark   = Mark{UID: "0199c3a2-5f11-7000-8000-000000000002", Generation: 2, ControlPlane: "0199c3a2-0000-7000-8000-00000000c0de", Token: strings.Repeat("ab", 32)}
	origin = Origin{ClusterID: "oscar-cluster-a", Endpoint: "https://a.example.org", SSLVerify: true}
)

func render(t *testing.T, s *oscar.Service, g *Graph, i int) (public, patch string) {
	t.Helper()
	p, sealed, err := NewTemplate(s, g, origin).Render(i, mark)
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), string(sealed)
}

// The form of the specs in the store: what the worker of the example is sent.
func TestRenderOfTheExample(t *testing.T) {
	s := parse(t, grayify)
	g := graphOf(t, s, three)
	worker, patch := render(t, s, g, 1)
	want := `{"name":"grayifyr1","cluster_id":"oscar-cluster-b","image":"ghcr.io/grycap/imagemagick","cpu":"0.5","memory":"0.5Gi","script":"#!/bin/sh\n",` +
		`"federation":{"group_id":"grayifyr0","topology":"mesh","delegation":"random","members":[]},` +
		`"annotations":{"oscar.grycap/federation-worker":"true","oscar.grycap/origin-cluster":"oscar-cluster-a","oscar.grycap/origin-service":"grayifyr0",` +
		`"oscarfed/control-plane":"0199c3a2-0000-7000-8000-00000000c0de","oscarfed/generation":"2","oscarfed/uid":"0199c3a2-5f11-7000-8000-000000000002"},` +
		`"input":[{"storage_provider":"minio.default","path":"grayifyr0/in"}],"output":[{"storage_provider":"minio.default","path":"grayifyr0/out"}],` +
		`"clusters":{"oscar-cluster-a":{"endpoint":"https://a.example.org","ssl_verify":true}}}`
	if diff := cmp.Diff(want, worker); diff != "" {
		t.Errorf("worker (-want +got):\n%s", diff)
	}
	if want := `{"token":"` + mark.Token + `"}`; patch != want {
		t.Errorf("patch %s, want %s", patch, want)
	}
	coordinator, _ := render(t, s, g, 0)
	want = `{"name":"grayifyr0","cluster_id":"oscar-cluster-a","image":"ghcr.io/grycap/imagemagick","cpu":"0.5","memory":"0.5Gi","script":"#!/bin/sh\n",` +
		`"federation":{"group_id":"grayifyr0","topology":"none","delegation":"random","members":[]},` +
		`"annotations":{"oscar.grycap/federation-worker":"true",` +
		`"oscarfed/control-plane":"0199c3a2-0000-7000-8000-00000000c0de","oscarfed/generation":"2","oscarfed/uid":"0199c3a2-5f11-7000-8000-000000000002"},` +
		`"input":[{"storage_provider":"minio.default","path":"grayifyr0/in"}],"output":[{"storage_provider":"minio.default","path":"grayifyr0/out"}]}`
	if diff := cmp.Diff(want, coordinator); diff != "" {
		t.Errorf("coordinator (-want +got):\n%s", diff)
	}
}

// full uses everything that must not reach an OSCAR, and something of all the rest.
const full = `{"name":"svc","cluster_id":"a","image":"i","script":"s","token":"sent-by-the-user","owner":"somebody","namespace":"kube-system","bucket_list":["x"],` +
	`"volume_status":{"enabled":true},"deployment":{"state":"ready"},"labels":{"l":"v"},"new":{"k":1},"allowed_users":["u"],"vo":"vo.x",` +
	`"annotations":{"mine":"kept","oscarfed/uid":"forged","oscarfed/other":"forged","oscar.grycap/origin-cluster":"forged","oscar.grycap/origin-service":"forged","oscar.grycap/federation-worker":"false"},` +
	`"environment":{"variables":{"A":"b"},"secrets":{"pw":"hunter2","refresh_token":"hunter2-refresh"}},"secrets":{"refresh_token":"hunter2-refresh"},` +
	`"clusters":{"b":{"endpoint":"https://b","auth_user":"u","auth_password":"hunter2-cluster"}},"storage_providers":{"s3":{"x":{"access_key":"hunter2-s3"}}},` +
	`"input":[{"storage_provider":"minio.default","path":"/in/","new":1}],"output":[{"storage_provider":"minio.default","path":"out"}],` +
	`"federation":{"topology":"tree","group_id":"g","rescheduler_threshold":30,"deployment":"best-effort","drift":"report","weights":{"cpu":1},"new":true,` +
	`"members":[{"cluster_id":"b","service_name":"svc","headers":{"X":"hunter2-header"}},{"type":"endpoint","url":"https://e"}]}}`

func TestRenderLeavesOutWhatIsNotForAnOSCAR(t *testing.T) {
	s := parse(t, full)
	before, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	g := graphOf(t, s, Env{})
	public, patch := render(t, s, g, 1)
	want := `{"name":"svc","cluster_id":"b","image":"i","script":"s","federation":{"group_id":"g","topology":"mesh","delegation":"static","members":[],"new":true},` +
		`"environment":{"variables":{"A":"b"},"secrets":{"pw":""}},` +
		`"annotations":{"mine":"kept","oscar.grycap/federation-worker":"true","oscar.grycap/origin-cluster":"oscar-cluster-a","oscar.grycap/origin-service":"svc",` +
		`"oscarfed/control-plane":"` + mark.ControlPlane + `","oscarfed/generation":"2","oscarfed/uid":"` + mark.UID + `"},` +
		`"labels":{"l":"v"},"vo":"vo.x","input":[{"storage_provider":"minio.default","path":"/in/","new":1}],"output":[{"storage_provider":"minio.default","path":"out"}],` +
		`"storage_providers":{"s3":{"x":{}}},"clusters":{"oscar-cluster-a":{"endpoint":"https://a.example.org","ssl_verify":true}},"allowed_users":["u"],"new":{"k":1}}`
	if diff := cmp.Diff(want, public); diff != "" {
		t.Errorf("public (-want +got):\n%s", diff)
	}
	if want := `{"token":"` + mark.Token + `","environment":{"secrets":{"pw":"hunter2"}},"storage_providers":{"s3":{"x":{"access_key":"hunter2-s3"}}}}`; patch != want {
		t.Errorf("patch %s\nwant  %s", patch, want)
	}
	if public, _ := render(t, s, g, 0); strings.Contains(public, `"clusters"`) || strings.Contains(public, "forged") {
		t.Errorf("the coordinator is sent addresses of others or a forged mark: %s", public)
	}
	if after, err := json.Marshal(s); err != nil || string(after) != string(before) {
		t.Errorf("the service was changed: %s, %v", after, err)
	}
}

// OSCAR would put the refresh token into the environment of the user's code.
func TestTheRefreshTokenIsNeverSent(t *testing.T) {
	for _, in := range []string{
		full,
		`{"name":"svc","cluster_id":"a","image":"i","script":"s","environment":{"secrets":{"refresh_token":"hunter2-refresh"}}}`,
		`{"name":"svc","cluster_id":"a","image":"i","script":"s","Secrets":{"refresh_token":"hunter2-refresh"},"Environment":{"Secrets":{"refresh_token":""}}}`,
	} {
		s := parse(t, in)
		g := graphOf(t, s, Env{})
		for i := range g.Replicas() {
			public, patch := render(t, s, g, i)
			for _, part := range []string{"refresh_token", "hunter2-refresh"} {
				if strings.Contains(public+patch, part) {
					t.Errorf("%s in %s %s", part, public, patch)
				}
			}
		}
	}
}

func TestAServiceThatIsSentBackKeepsItsOwnMinIO(t *testing.T) {
	read := parse(t, grayify).WithDefaults()
	m := read.StorageProviders.MinIO["default"]
	m.Endpoint = "https://minio.a.example.org"
	read.StorageProviders.MinIO["default"] = m
	public, _ := render(t, read, graphOf(t, read, three), 1)
	if strings.Contains(public, "minio.a.example.org") || strings.Contains(public, "hidden") {
		t.Errorf("the worker would use the MinIO of the coordinator: %s", public)
	}
	m.AccessKey, m.SecretKey = "mine", "mine"
	read.StorageProviders.MinIO["default"] = m
	if public, _ := render(t, read, graphOf(t, read, three), 1); !strings.Contains(public, "minio.a.example.org") {
		t.Errorf("a provider of the user's own was dropped: %s", public)
	}
}

func TestAServiceThatIsSentBackHasNoLabelsOfOSCAR(t *testing.T) {
	read := parse(t, grayify)
	read.Labels = map[string]string{
		"oscar.grycap/user-service": "true", "oscar_service": "grayifyr0", "applicationId": "grayifyr0", "queue": "root.oscar-queue.grayifyr0",
		"owner_name": "Bob", "kueue.x-k8s.io/queue-name": "oscar-lq-grayifyr0", "vo": "physics", "mine": "kept",
	}
	public, _ := render(t, read, graphOf(t, read, three), 1)
	if want := `"labels":{"mine":"kept","vo":"physics"}`; !strings.Contains(public, want) {
		t.Errorf("%s\nlacks %s", public, want)
	}
	read.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "mine"}
	if public, _ := render(t, read, graphOf(t, read, three), 1); !strings.Contains(public, `"kueue.x-k8s.io/queue-name":"mine"`) {
		t.Errorf("a queue of the user's own was dropped: %s", public)
	}
}

func TestRenderRefuses(t *testing.T) {
	s := parse(t, full)
	g := graphOf(t, s, Env{})
	for _, tc := range []struct {
		i    int
		mark Mark
		want string
	}{
		{-1, mark, "is not there"}, {3, mark, "is not there"}, {2, mark, "no replica"},
		{0, Mark{UID: "u"}, "no mark"}, {0, Mark{Token: "t"}, "no mark"},
	} {
		if _, _, err := NewTemplate(s, g, origin).Render(tc.i, tc.mark); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("node %d, mark %+v: %v", tc.i, tc.mark, err)
		}
	}
}

func TestTheOriginIsTheCoordinatorWhenNotSaid(t *testing.T) {
	s := parse(t, grayify)
	p, _, err := NewTemplate(s, graphOf(t, s, three), Origin{Endpoint: "https://x"}).Render(1, mark)
	if err != nil {
		t.Fatal(err)
	}
	if p.Annotations[oscar.AnnotationOriginCluster] != "oscar-cluster-a" || p.Clusters["oscar-cluster-a"].Endpoint != "https://x" {
		t.Errorf("%+v %+v", p.Annotations, p.Clusters)
	}
}

// For every service and node: two renders are the same bytes, nobody is listed
// (an OSCAR sends nothing to anybody), no secret is readable, the marks are ours,
// and the whole is put together again by the patch.
func TestRenderProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawService(t)
		s.Environment.Secrets = rapid.MapOfN(rapid.StringMatching(`[a-z]{1,4}`), rapid.Just("hunter2"), 0, 3).Draw(t, "secrets")
		s.Annotations = rapid.MapOfN(rapid.SampledFrom([]string{"mine", oscar.AnnotationUID, oscar.AnnotationWorker, oscar.AnnotationOriginCluster}), rapid.Just("forged"), 0, 4).Draw(t, "annotations")
		g, violations := FromService(s, Env{})
		if len(violations) > 0 {
			t.Fatalf("%v", violations)
		}
		template := NewTemplate(s, g, origin)
		for i, n := range g.Nodes {
			if !n.Replica() {
				continue
			}
			public, patch, err := template.Render(i, mark)
			if err != nil {
				t.Fatal(err)
			}
			again, patchAgain, err := NewTemplate(s.Clone(), g, origin).Render(i, mark)
			if err != nil {
				t.Fatal(err)
			}
			if !oscar.Equal(public, again) || string(patch) != string(patchAgain) {
				t.Fatal("two renders differ")
			}
			data, err := json.Marshal(public)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), "hunter2") || strings.Contains(string(data), mark.Token) {
				t.Fatalf("a secret is readable: %s", data)
			}
			merged, err := oscar.MergePatch(data, patch)
			if err != nil {
				t.Fatal(err)
			}
			whole, violations := oscar.ParseService(merged)
			if len(violations) > 0 || whole.Token != mark.Token || len(whole.Environment.Secrets) != len(s.Environment.Secrets) {
				t.Fatalf("put together: %s, %v", merged, violations)
			}
			for key, value := range whole.Environment.Secrets {
				if value != s.Environment.Secrets[key] {
					t.Fatalf("secret %s is %q", key, value)
				}
			}
			if len(whole.Federation.Members) != 0 || whole.Federation.Members == nil {
				t.Fatalf("members %v", whole.Federation.Members)
			}
			topology, others := "mesh", 1
			if i == 0 {
				topology, others = "none", 0
			}
			if whole.Federation.Topology != topology || len(whole.Clusters) != others {
				t.Fatalf("node %d: topology %s, clusters %v", i, whole.Federation.Topology, whole.Clusters)
			}
			if a := whole.Annotations; a[oscar.AnnotationUID] != mark.UID || a[oscar.AnnotationWorker] != "true" || (i == 0) != (a[oscar.AnnotationOriginCluster] == "") {
				t.Fatalf("node %d: annotations %v", i, a)
			}
		}
	})
}

// A template serves all nodes, in any order.
func TestATemplateIsNotChangedByRendering(t *testing.T) {
	s := parse(t, full)
	g := graphOf(t, s, Env{})
	template := NewTemplate(s, g, origin)
	for _, i := range []int{1, 0, 1, 0} {
		public, patch, err := template.Render(i, mark)
		if err != nil {
			t.Fatal(err)
		}
		alone, alonePatch, err := NewTemplate(s, g, origin).Render(i, mark)
		if err != nil {
			t.Fatal(err)
		}
		if !oscar.Equal(public, alone) || string(patch) != string(alonePatch) {
			t.Errorf("node %d is another one after others", i)
		}
	}
}

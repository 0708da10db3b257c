package api_test

import (
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/apitest"
	apiclient "github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
)

// connect calls a real server through the typed client.
func connect(t *testing.T, f *fake, pass string) *apiclient.Client {
	t.Helper()
	server := httptest.NewServer(newServer(t, f).Handler())
	t.Cleanup(server.Close)
	c, err := apiclient.New(apiclient.Config{
		Endpoint: server.URL, User: user, Password: pass, Transport: apitest.Transport(t, server.Client().Transport),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What the server says is what the client understands.
func TestClientAndServer(t *testing.T) {
	f, s := example(), parse(t, service)
	view := controlplane.Replicas{Federation: f, Sees: []int{1}}
	cluster := controlplane.Cluster{ClusterID: "c1", UID: "u", State: "active", RegisteredAt: moment("2026-11-20T12:00:00Z"), Alive: true}
	cp := &fake{
		created: &controlplane.CreateResult{Federation: f, Done: true, Replayed: true}, deleted: &controlplane.DeleteResult{Pending: 1},
		services: []*oscar.Service{s}, service: s, replicas: func() *controlplane.Replicas { return &view },
		federation: &f, federations: []controlplane.Federation{f}, cluster: &cluster, clusters: []controlplane.Cluster{cluster},
		health: controlplane.Health{OK: true},
	}
	c, ctx := connect(t, cp, password), t.Context()

	if err := c.Health(ctx); err != nil {
		t.Error(err)
	}
	if info, err := c.Info(ctx); err != nil || info.Clusters != 3 || info.Version != "v4.1.2" {
		t.Errorf("info: %+v, %v", info, err)
	}
	created, err := c.CreateService(ctx, s, apiclient.CreateOptions{IdempotencyKey: "k"})
	if err != nil || !created.Done || !created.Replayed || created.Location != "/system/replicas/grayifyr0" ||
		created.RequestID == "" || created.Replicas.Replicas[0].Status.Reason != "SessionLost" {
		t.Errorf("create: %+v, %v", created, err)
	}
	if deleted, err := c.DeleteService(ctx, "grayifyr0", apiclient.DeleteOptions{}); err != nil || deleted.Pending != 1 {
		t.Errorf("delete: %+v, %v", deleted, err)
	}
	if list, err := c.Services(ctx); err != nil || len(list) != 1 || !oscar.Equal(list[0], s) {
		t.Errorf("services: %+v, %v", list, err)
	}
	if one, err := c.Service(ctx, "grayifyr0", ""); err != nil || !oscar.Equal(one, s) {
		t.Errorf("service: %+v, %v", one, err)
	}
	replicas, err := c.Replicas(ctx, "grayifyr0", "")
	if diff := cmp.Diff(created.Replicas, replicas); err != nil || diff != "" {
		t.Errorf("replicas: %v %s", err, diff)
	}
	one, err := c.Federation(ctx, "grayifyr0")
	if err != nil || one.Owner != "cluster_admin" || len(one.Edges) != 2 {
		t.Errorf("federation: %+v, %v", one, err)
	}
	if list, err := c.Federations(ctx); err != nil || len(list) != 1 || !cmp.Equal(list[0], *one) {
		t.Errorf("federations: %+v, %v", list, err)
	}
	registered, err := c.RegisterCluster(ctx, v1.ClusterSpec{ClusterID: "c1", Endpoint: "https://c1"})
	if err != nil || registered.ClusterID != "c1" || !registered.Alive {
		t.Errorf("register: %+v, %v", registered, err)
	}
	if list, err := c.Clusters(ctx); err != nil || len(list) != 1 || !cmp.Equal(list[0], *registered) {
		t.Errorf("clusters: %+v, %v", list, err)
	}
	if err := c.RemoveCluster(ctx, "c1"); err != nil {
		t.Errorf("remove: %v", err)
	}
}

func TestClientUnderstandsFailures(t *testing.T) {
	_, err := connect(t, &fake{err: failedCreate()}, password).
		CreateService(t.Context(), parse(t, service), apiclient.CreateOptions{})
	e, ok := errors.AsType[*apiclient.Error](err)
	if !ok || e.Code() != v1.CodeReplicaFailed || len(e.Problem.Replicas) != 3 || e.Problem.Replicas[1].Cause.Status != 500 {
		t.Errorf("got %+v", err)
	}
	_, err = connect(t, &fake{}, "wrong").Service(t.Context(), "x", "")
	if e, ok := errors.AsType[*apiclient.Error](err); !ok || e.Code() != v1.CodeUnauthenticated || e.Problem.RequestID == "" {
		t.Errorf("got %+v", err)
	}
}

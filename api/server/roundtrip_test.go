package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/apitest"
	apiclient "github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

// connect calls a real server through the typed client.
func connect(t *testing.T, f *fake, pass string) *apiclient.Client {
	t.Helper()
	srv := httptest.NewServer(newServer(t, f).Handler())
	t.Cleanup(srv.Close)
	c, err := apiclient.New(apiclient.Config{
		Endpoint: srv.URL, User: user, Password: pass, Transport: apitest.Transport(t, srv.Client().Transport),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What the server says is what the client understands.
func TestClientAndServer(t *testing.T) {
	f, s := example(), parse(t, service)
	shown := view.Replicas{Federation: f, Sees: []int{1}}
	cluster := clusters.Cluster{Cluster: v1.Cluster{
		V: 1, ClusterID: "c1", UID: "u", Labels: map[string]string{}, State: "active", AllowedGroups: []string{}, RegisteredAt: v1.Time{Time: moment("2026-11-20T12:00:00Z")}, Alive: true,
	}}
	cp := &fake{
		created: &federations.CreateResult{Federation: f, Done: true, Replayed: true}, deleted: &federations.DeleteResult{Pending: 1},
		services: []*oscar.Service{s}, service: s, replicas: func() *view.Replicas { return &shown },
		federation: &f, federations: []view.Federation{f}, cluster: &cluster, clusters: []clusters.Cluster{cluster},
		health: gate.Health{OK: true},
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
	cp.changed = &federations.ChangeResult{Replicas: shown, Away: shown.Members}
	if after, err := c.ChangeService(ctx, s, apiclient.ChangeOptions{}); err != nil || !cmp.Equal(after, created.Replicas) {
		t.Errorf("change: %+v, %v", after, err)
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
	cp.removed = &clusters.RemoveResult{Pending: 3}
	if got, err := c.RemoveCluster(ctx, "c1", apiclient.RemoveClusterOptions{Force: true}); err != nil || got.Cluster != nil || got.Pending != 3 {
		t.Errorf("remove: %+v %v", got, err)
	}
	removing := *cp.cluster
	removing.State, removing.Removal = "removing", &v1.ClusterRemoval{Orphan: true, Tombstones: 2, Waits: "it is away", Blocked: true}
	cp.removed = &clusters.RemoveResult{Cluster: &removing, Pending: 2}
	got, err := c.RemoveCluster(ctx, "c1", apiclient.RemoveClusterOptions{Orphan: true, Wait: time.Minute})
	if err != nil || got.Cluster == nil || got.Cluster.State != "removing" || !got.Cluster.Removal.Blocked || got.Cluster.Removal.Waits != "it is away" {
		t.Errorf("remove: %+v %v", got, err)
	}
	asked := cp.calls[len(cp.calls)-1]
	if opts, ok := asked.args.(clusters.RemoveOptions); !ok || !opts.Orphan || opts.Force || opts.Wait != time.Minute || opts.RequestID == "" {
		t.Errorf("asked %+v", asked)
	}
}

// What the client asks for is what the server understands.
func TestClientAndServerAgreeOnChanges(t *testing.T) {
	b, d := member("b", "svc1"), member("d", "svc3")
	d.Priority, d.Weight, d.Headers = 3, new(0), map[string]string{"X-Key": "k"}
	far := oscar.Member{Type: oscar.MemberEndpoint, URL: "https://far.example.org", SSLVerify: new(false)}
	opts := apiclient.ChangeOptions{ClusterID: "a", IfMatch: 4711, Wait: time.Minute}
	tests := map[string]struct {
		send func(context.Context, *apiclient.Client) (*v1.Replicas, error)
		want federations.ReplicasRequest
	}{
		"add": {
			func(ctx context.Context, c *apiclient.Client) (*v1.Replicas, error) {
				return c.AddReplicas(ctx, "svc", []oscar.Member{d, far}, opts)
			},
			federations.ReplicasRequest{Add: []oscar.Member{d, far}, List: "replicas"},
		},
		"replace": {
			func(ctx context.Context, c *apiclient.Client) (*v1.Replicas, error) {
				return c.ReplaceReplicas(ctx, "svc", []apiclient.Replacement{{From: b, To: d}, {From: far, To: far}}, opts)
			},
			federations.ReplicasRequest{Replace: []federations.Replacement{pair(b, d), pair(far, far)}, List: "update"},
		},
		"remove": {
			func(ctx context.Context, c *apiclient.Client) (*v1.Replicas, error) {
				return c.RemoveReplicas(ctx, "svc", []oscar.Member{b, far}, opts)
			},
			federations.ReplicasRequest{Remove: []oscar.Member{b, far}},
		},
		"remove all": {
			func(ctx context.Context, c *apiclient.Client) (*v1.Replicas, error) {
				return c.RemoveAllReplicas(ctx, "svc", opts)
			},
			federations.ReplicasRequest{RemoveAll: true},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := &fake{changed: changed(), clusters: registered("b", "d")}
			view, err := tt.send(t.Context(), connect(t, f, password))
			if err != nil || view.Revision != 4711 || view.Replicas[0].ServiceName != "grayifyr1" {
				t.Fatalf("got %+v, %v", view, err)
			}
			called, got := f.asked(t)
			tt.want.ClusterID, tt.want.IfMatch, tt.want.Wait, tt.want.RequestID = "a", 4711, time.Minute, got.RequestID
			if diff := cmp.Diff(tt.want, got); diff != "" || called != "ChangeReplicas svc" {
				t.Errorf("%s: %s", called, diff)
			}
		})
	}
	f := &fake{err: &fault.Error{Code: fault.CodeNotFound}}
	_, err := connect(t, f, password).RemoveReplicas(t.Context(), "svc", nil, opts)
	if e, ok := errors.AsType[*apiclient.Error](err); !ok || e.Code() != v1.CodeInvalid {
		t.Errorf("the removal of nobody: %v", err)
	}
	f.unasked(t)
}

// The stream of one side is the stream of the other, over a control plane that
// stops and another one that goes on.
func TestClientWatchesServers(t *testing.T) {
	src := newSource()
	first, second := newServer(t, src.fake()), newServer(t, src.fake())
	var front atomic.Pointer[server.Server]
	front.Store(first)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { front.Load().Handler().ServeHTTP(w, r) }))
	defer srv.Close()
	c, err := apiclient.New(apiclient.Config{
		Endpoint: srv.URL, User: user, Password: password, Transport: apitest.Transport(t, srv.Client().Transport),
	})
	if err != nil {
		t.Fatal(err)
	}
	seen, ended := make(chan int64), make(chan error, 1)
	go func() {
		ended <- c.WatchReplicas(t.Context(), "grayifyr0", apiclient.WatchOptions{}, func(v *v1.Replicas, id int64) error {
			if v.UID != example().UID || len(v.Replicas) != 1 {
				t.Errorf("got %+v", v)
			}
			seen <- id
			return nil
		})
	}()
	if since := <-src.since; since != 0 {
		t.Errorf("began after %d", since)
	}
	src.views <- viewAt(7, "ready")
	if id := <-seen; id != 7 {
		t.Errorf("saw %d", id)
	}
	front.Store(second)
	first.Drain()
	if since := <-src.since; since != 7 {
		t.Errorf("went on after %d", since)
	}
	src.views <- viewAt(9, "ready")
	if id := <-seen; id != 9 {
		t.Errorf("saw %d", id)
	}
	src.views <- &fault.Error{Code: fault.CodeNotFound, Message: "gone"}
	if e, ok := errors.AsType[*apiclient.Error](<-ended); !ok || e.Code() != v1.CodeNotFound || e.Problem.Detail != "gone" {
		t.Errorf("ended with %v", e)
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

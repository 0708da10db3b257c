package server_test

import (
	"cmp"
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/events"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/plan"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/runs"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/controlplane/watch"
)

// pageOf is a page of entries that are in memory.
func pageOf[T any](entries ...T) *listing.Page[T] {
	return &listing.Page[T]{Each: func(fn func(T) error) error {
		for _, one := range entries {
			if err := fn(one); err != nil {
				return err
			}
		}
		return nil
	}}
}

// fake is a control plane that answers what a test puts into it and remembers
// what it was asked.
type fake struct {
	err      error
	room     clusters.Capacities
	created  *federations.CreateResult
	deleted  *federations.DeleteResult
	audit    []v1.AuditEntry
	services []*oscar.Service
	// next is the token that every list is continued with, and broken breaks services off.
	next        string
	broken      error
	service     *oscar.Service
	replicas    func() *view.Replicas
	federations []view.Federation
	federation  *view.Federation
	clusters    []clusters.Cluster
	removed     *clusters.RemoveResult
	cluster     *clusters.Cluster
	health      gate.Health
	// starting says that it is not ready.
	starting    bool
	changed     *federations.ChangeResult
	history     []federations.Generation
	plan        *v1.Plan
	joinToken   *v1.JoinToken
	enrolment   *v1.Enrolment
	differences *v1.Differences
	token       *v1.RefreshTokenStatus
	jobs        fakeJobs
	// stream is what TakeStream gives.
	stream func(context.Context, net.Conn) error
	// run is what Invoke and JobLog give.
	run     func(runs.Request) (*runs.Answer, error)
	jobList *runs.JobList
	missing []string
	buckets []v1.Bucket
	// forwarded is what a cluster's OSCAR answers; nil is an empty object.
	forwarded *runs.ForwardAnswer
	// changeRequest is what the last rollback was asked with.
	changeRequest federations.ChangeRequest
	// watch stands for WatchReplicas.
	watch func(ctx context.Context, since int64, fn func(*view.Replicas) error) error
	// follow stands for Changes.Follow.
	follow func(ctx context.Context, q watch.Query, w watch.Watcher) error
	// before is called at the start of every use case; it may be nil.
	before func(ctx context.Context)

	mu    sync.Mutex
	calls []call
}

// Ready implements server.ControlPlane.
func (f *fake) Ready() <-chan struct{} {
	if f.starting {
		return nil
	}
	ready := make(chan struct{})
	close(ready)
	return ready
}

type call struct {
	name   string
	caller identity.Caller
	args   any
}

type target struct{ Name, ClusterID string }

func (f *fake) called(ctx context.Context, name string, caller identity.Caller, args any) {
	f.mu.Lock()
	f.calls = append(f.calls, call{name, caller, args})
	f.mu.Unlock()
	if f.before != nil {
		f.before(ctx)
	}
}

// only is the one call that was made.
func (f *fake) only(t *testing.T) call {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.calls) != 1 {
		t.Fatalf("the control plane was asked %d times, want once: %+v", len(f.calls), f.calls)
	}
	return f.calls[0]
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

func (f *fake) CreateService(ctx context.Context, c identity.Caller, req federations.CreateRequest) (*federations.CreateResult, error) {
	f.called(ctx, "CreateService", c, req)
	return f.created, f.err
}

func (f *fake) CreateServices(ctx context.Context, c identity.Caller, req federations.BatchRequest) (*federations.BatchResult, error) {
	f.called(ctx, "CreateServices", c, req)
	if f.err != nil {
		return nil, f.err
	}
	return &federations.BatchResult{Federations: f.federations, Done: true}, nil
}

func (f *fake) DeleteService(ctx context.Context, c identity.Caller, service string, opts federations.DeleteOptions) (*federations.DeleteResult, error) {
	f.called(ctx, "DeleteService "+service, c, opts)
	return f.deleted, f.err
}

func (f *fake) Services(ctx context.Context, c identity.Caller, q listing.Query, deployments bool) (*listing.Page[federations.ListedService], error) {
	f.called(ctx, "Services", c, nil)
	var list []federations.ListedService
	for _, s := range f.services {
		if q.ClusterID != "" && q.ClusterID != s.ClusterID {
			continue
		}
		one := federations.ListedService{Service: s}
		for _, fed := range f.federations {
			for i, m := range fed.Members {
				if deployments && m.ClusterID == s.ClusterID && m.ServiceName == s.Name {
					one.Deployment = new(view.DeploymentOf(fed.Members, i))
				}
			}
		}
		list = append(list, one)
	}
	page := pageOf(list...)
	if f.broken != nil {
		each := page.Each
		page.Each = func(fn func(federations.ListedService) error) error { return cmp.Or(each(fn), f.broken) }
	}
	page.Next = f.next
	return page, f.err
}

func (f *fake) Service(ctx context.Context, c identity.Caller, name, clusterID string) (*oscar.Service, int64, error) {
	f.called(ctx, "Service", c, target{name, clusterID})
	return f.service, 4711, f.err
}

func (f *fake) Replicas(ctx context.Context, c identity.Caller, name, clusterID string) (*view.Replicas, error) {
	f.called(ctx, "Replicas", c, target{name, clusterID})
	if f.err != nil {
		return nil, f.err
	}
	return f.replicas(), nil
}

func (f *fake) ChangeService(ctx context.Context, c identity.Caller, req federations.ChangeRequest) (*federations.ChangeResult, error) {
	f.called(ctx, "ChangeService", c, req)
	return f.changed, f.err
}

func (f *fake) ChangeReplicas(ctx context.Context, c identity.Caller, service string, req federations.ReplicasRequest) (*federations.ChangeResult, error) {
	f.called(ctx, "ChangeReplicas "+service, c, req)
	return f.changed, f.err
}

func (f *fake) Deleted(ctx context.Context, c identity.Caller, groupID string) ([]v1.DeletedReplica, error) {
	f.called(ctx, "Deleted "+groupID, c, nil)
	if f.deleted == nil {
		return nil, f.err
	}
	return f.deleted.Replicas, f.err
}

func (f *fake) Files(ctx context.Context, c identity.Caller, add func(name string, data []byte) error) error {
	f.called(ctx, "Files", c, nil)
	if f.err != nil {
		return f.err
	}
	for _, name := range []string{"metrics.txt", "control-plane.json"} {
		if err := add(name, []byte(name)); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) Audit(ctx context.Context, c identity.Caller, q request.AuditQuery) ([]v1.AuditEntry, string, error) {
	f.called(ctx, "Audit", c, q)
	return f.audit, f.next, f.err
}

func (f *fake) WatchReplicas(ctx context.Context, c identity.Caller, service, clusterID string, since int64, fn func(*view.Replicas) error) error {
	f.called(ctx, "WatchReplicas", c, target{service, clusterID})
	return f.watch(ctx, since, fn)
}

// federationCases are the use cases of federations.
type federationCases struct{ *fake }

func (f federationCases) List(ctx context.Context, c identity.Caller, q listing.Query) (*listing.Page[*view.Federation], error) {
	f.called(ctx, "Federations", c, q)
	var list []*view.Federation
	for i := range f.federations {
		list = append(list, &f.federations[i])
	}
	page := pageOf(list...)
	page.Next = f.next
	return page, f.err
}

func (f federationCases) ReplicaStatuses(ctx context.Context, c identity.Caller, q listing.Query) (*listing.Page[v1.ServiceStatus], error) {
	f.called(ctx, "ReplicaStatuses", c, q)
	var list []v1.ServiceStatus
	for i := range f.federations {
		shown := f.federations[i].Wire(time.Time{})
		for _, m := range shown.Replicas {
			if m.Status != nil {
				list = append(list, shown.ServiceStatus(m))
			}
		}
	}
	page := pageOf(list...)
	page.Next = f.next
	return page, f.err
}

func (f federationCases) Get(ctx context.Context, c identity.Caller, id string) (*view.Federation, error) {
	f.called(ctx, "Federation", c, target{Name: id})
	return f.federation, f.err
}

func (f *fake) Info(ctx context.Context) gate.Info {
	f.called(ctx, "Info", identity.Caller{}, nil)
	return gate.Info{ControlPlane: "0199c3a2-0000-7000-8000-00000000c0de", Clusters: 3, Alive: 2,
		Etcd: gate.Space{Level: "ok", Size: 3, InUse: 2, Quota: 4}, UpgradeUnfinished: true}
}

func (f *fake) StorageOf(_ context.Context, caller identity.Caller, cluster string) (*runs.UserKeys, error) {
	if caller.Administrator {
		return nil, &fault.Error{Code: fault.CodeForbidden, Message: "for users alone"}
	}
	if cluster != "oscar-cluster-b" {
		return nil, &fault.Error{Code: fault.CodeNotFound, Message: "there is no such cluster"}
	}
	return &runs.UserKeys{Storage: runs.Storage{Endpoint: "https://minio.b.example.org", Region: "eu-1"}, AccessKey: caller.Subject, SecretKey: "his"}, nil
}

func (f *fake) DefaultStorage(ctx context.Context, caller identity.Caller) (runs.UserKeys, string, error) {
	f.called(ctx, "DefaultStorage", caller, nil)
	keys := runs.UserKeys{Storage: runs.Storage{Endpoint: "https://minio.example.org", Region: "us-east-1"}, Verify: true}
	if caller.Administrator {
		return keys, "for users alone", nil
	}
	keys.AccessKey, keys.SecretKey = caller.Subject, "his"
	return keys, "", f.err
}

func (f *fake) Capacities(ctx context.Context, caller identity.Caller) (clusters.Capacities, error) {
	f.called(ctx, "Capacities", caller, nil)
	return f.room, f.err
}

func (f *fake) Health(ctx context.Context) gate.Health {
	f.called(ctx, "Health", identity.Caller{}, nil)
	return f.health
}

// The federation of the contract's examples: grayifyr0 on a, whose replica on b
// has lost its syncer.
func example() view.Federation {
	return view.Federation{
		UID: "0199c3a2-5f0e-7c31-9a44-3b1f0d8e6a21", Owner: "cluster_admin", GroupID: "grayifyr0",
		Topology: "mesh", Delegation: "random", Deployment: "transactional", Drift: "enforce",
		Generation: 2, Revision: 4711, Phase: "degraded",
		CreatedAt: moment("2026-11-20T13:03:58.001Z"), ChangedAt: moment("2026-11-20T13:04:02.417Z"),
		Members: []view.Replica{{
			Type: "oscar", ClusterID: "oscar-cluster-a", ServiceName: "grayifyr0", UID: "0199c3a2-5f11-7000-8000-000000000001", Coordinator: true,
			Inputs: []string{"minio.default:grayifyr0/in"}, Outputs: []string{"minio.default:grayifyr0/out"},
			Status: &view.Status{
				Phase: "ready", ObservedGeneration: 2, Reason: "Applied", LastTransitionTime: moment("2026-11-20T13:04:05.120Z"),
			},
		}, {
			Type: "oscar", ClusterID: "oscar-cluster-b", ServiceName: "grayifyr1", UID: "0199c3a2-5f11-7000-8000-000000000002",
			Inputs: []string{"minio.default:grayifyr0/in"}, Outputs: []string{"minio.default:grayifyr0/out"},
			Status: &view.Status{
				Phase: "unreachable", ObservedGeneration: 1, Reason: "SessionLost",
				Message:            "no syncer since 2026-11-20T12:58:11Z; generation 2 will be applied when it is back",
				LastTransitionTime: moment("2026-11-20T12:58:41.000Z"),
			},
		}},
		Edges: [][2]int{{0, 1}, {1, 0}},
	}
}

func moment(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}

func (f *fake) RotateToken(ctx context.Context, c identity.Caller, service, clusterID, _ string, repeat request.Repeat) (*federations.ChangeResult, error) {
	f.called(ctx, "RotateToken "+service, c, target{service, clusterID})
	if f.err != nil {
		return nil, f.err
	}
	return &federations.ChangeResult{Replicas: *f.replicas(), Replayed: repeat.Key != ""}, nil
}

func (f federationCases) Pause(ctx context.Context, c identity.Caller, service, clusterID, _ string, paused bool) (*view.Replicas, error) {
	f.called(ctx, "PauseFederation "+service, c, paused)
	if f.err != nil {
		return nil, f.err
	}
	return f.replicas(), nil
}

func (f federationCases) SetRunState(ctx context.Context, c identity.Caller, in federations.RunStateRequest) error {
	f.called(ctx, "SetRunState "+in.Service, c, in)
	return f.err
}

func (f *fake) History(ctx context.Context, c identity.Caller, service, clusterID string) ([]federations.Generation, error) {
	f.called(ctx, "History", c, target{service, clusterID})
	return f.history, f.err
}

func (f *fake) Rollback(ctx context.Context, c identity.Caller, service, _ string, generation int64, req federations.ChangeRequest) (*federations.ChangeResult, error) {
	f.called(ctx, "Rollback "+service, c, generation)
	f.changeRequest = req
	return f.changed, f.err
}

func (f *fake) Make(ctx context.Context, c identity.Caller, req plan.Request) (*v1.Plan, error) {
	f.called(ctx, "PlanService", c, req)
	return f.plan, f.err
}

func (f *fake) tokenStatus() (*v1.RefreshTokenStatus, error) {
	if f.err != nil || f.token == nil {
		return &v1.RefreshTokenStatus{Token: v1.RefreshToken{State: view.TokenNone}, Members: []v1.MemberToken{}}, f.err
	}
	return f.token, nil
}

func (f *fake) RefreshToken(ctx context.Context, c identity.Caller, service, clusterID string) (*v1.RefreshTokenStatus, error) {
	f.called(ctx, "RefreshToken", c, target{service, clusterID})
	return f.tokenStatus()
}

func (f *fake) GiveRefreshToken(ctx context.Context, c identity.Caller, service string, req tokens.RefreshTokenRequest) (*v1.RefreshTokenStatus, error) {
	f.called(ctx, "GiveRefreshToken", c, req)
	return f.tokenStatus()
}

func (f *fake) DropRefreshToken(ctx context.Context, c identity.Caller, service, clusterID, _ string) (*v1.RefreshTokenStatus, error) {
	f.called(ctx, "DropRefreshToken", c, target{service, clusterID})
	return f.tokenStatus()
}

func (f *fake) FinishUpgrade(ctx context.Context, c identity.Caller) (*v1.Upgrade, error) {
	f.called(ctx, "FinishUpgrade", c, nil)
	return &v1.Upgrade{Form: 3}, f.err
}

func (f *fake) Usage(ctx context.Context, c identity.Caller) (*v1.Usage, error) {
	f.called(ctx, "Usage", c, nil)
	return &v1.Usage{Accounts: []v1.AccountUsage{}}, f.err
}

func (f *fake) Stats(ctx context.Context, c identity.Caller, federation string) (*v1.Stats, error) {
	f.called(ctx, "Stats", c, federation)
	return &v1.Stats{Jobs: map[string]int{}, Clusters: []v1.ClusterJobs{}, Edges: []v1.JobEdge{}}, f.err
}

// eventCases are the use cases of GET /system/events.
type eventCases struct{ *fake }

func (f eventCases) List(ctx context.Context, c identity.Caller, q events.Query) (*v1.SystemEvents, string, error) {
	f.called(ctx, "Events", c, q)
	return &v1.SystemEvents{Events: []v1.SystemEvent{{ID: "7-1", Revision: 7, Kind: v1.AboutCluster, Severity: v1.SeverityInfo, Reason: "ClusterBack"}}, Revision: 8, Epoch: "e"}, "7-1", f.err
}

// changes are the use cases of GET /system/watch.
type changes struct{ *fake }

func (f changes) Check(ctx context.Context, c identity.Caller, q watch.Query) error {
	f.called(ctx, "Changes", c, q)
	return f.err
}

func (f changes) Follow(ctx context.Context, _ identity.Caller, q watch.Query, w watch.Watcher) error {
	if f.follow == nil {
		return nil
	}
	return f.follow(ctx, q, w)
}

package server_test

import (
	"context"
	"net"
	"slices"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/recovery"
)

// clusterCases are the use cases of clusters.
type clusterCases struct{ *fake }

func (f clusterCases) Register(ctx context.Context, c identity.Caller, spec clusters.Spec) (*clusters.Cluster, error) {
	f.called(ctx, "RegisterCluster", c, spec)
	return f.cluster, f.err
}

func (f clusterCases) Update(ctx context.Context, c identity.Caller, spec clusters.Spec) (*clusters.Cluster, error) {
	f.called(ctx, "UpdateCluster", c, spec)
	return f.cluster, f.err
}

func (f clusterCases) List(ctx context.Context, c identity.Caller, _ listing.Query) (*listing.Page[*clusters.Cluster], error) {
	f.called(ctx, "Clusters", c, nil)
	var list []*clusters.Cluster
	for i := range f.clusters {
		list = append(list, &f.clusters[i])
	}
	return pageOf(list...), f.err
}

func (f clusterCases) Get(ctx context.Context, c identity.Caller, id string) (*clusters.Cluster, error) {
	f.called(ctx, "Cluster", c, target{Name: id})
	return f.cluster, f.err
}

func (f clusterCases) Remove(ctx context.Context, c identity.Caller, id string, opts clusters.RemoveOptions) (*clusters.RemoveResult, error) {
	f.called(ctx, "RemoveCluster "+id, c, opts)
	return f.removed, f.err
}

func (f clusterCases) SetState(ctx context.Context, c identity.Caller, id, state string) (*clusters.Cluster, error) {
	f.called(ctx, "SetClusterState "+id, c, state)
	return f.cluster, f.err
}

func (f clusterCases) Readmit(ctx context.Context, c identity.Caller, id string) (*clusters.Cluster, error) {
	f.called(ctx, "ReadmitCluster "+id, c, nil)
	return f.cluster, f.err
}

func (f *fake) Differences(ctx context.Context, c identity.Caller) (*v1.Differences, error) {
	f.called(ctx, "Differences", c, nil)
	return f.differences, f.err
}

func (f *fake) Resolve(ctx context.Context, c identity.Caller, req recovery.ResolveRequest) (*v1.Difference, error) {
	f.called(ctx, "Resolve", c, req)
	if f.err != nil {
		return nil, f.err
	}
	return &f.differences.Differences[0], nil
}

func (f *fake) IssueJoin(ctx context.Context, c identity.Caller, id string, replaceKey bool) (*v1.JoinToken, error) {
	f.called(ctx, "IssueJoin "+id, c, replaceKey)
	return f.joinToken, f.err
}

func (f *fake) Join(ctx context.Context, req v1.Join) (*v1.Enrolment, error) {
	f.called(ctx, "Join", identity.Caller{}, req)
	return f.enrolment, f.err
}

func (f *fake) Challenge() (string, time.Time, error) {
	return "a-challenge", moment("2026-11-20T13:09:05.120Z"), nil
}

func (f *fake) Renew(ctx context.Context, req v1.JoinRenewal) (*v1.Enrolment, error) {
	f.called(ctx, "Renew", identity.Caller{}, req)
	return f.enrolment, f.err
}

func (f *fake) Instance() string { return "an-instance" }

func (f *fake) ChallengeStream(ctx context.Context, cluster, uid string, connected []string) (clusters.StreamChallenge, error) {
	f.called(ctx, "ChallengeStream "+cluster+" "+uid, identity.Caller{}, connected)
	if slices.Contains(connected, f.Instance()) {
		return clusters.StreamChallenge{Instance: f.Instance(), Instances: 2}, f.err
	}
	return clusters.StreamChallenge{Instance: f.Instance(), Sealed: "YWdl", Expires: moment("2026-11-20T13:05:05.120Z")}, f.err
}

func (f *fake) TakeStream(ctx context.Context, open clusters.OpenStream) (func(context.Context, net.Conn) error, error) {
	f.called(ctx, "TakeStream", identity.Caller{}, open)
	return f.stream, f.err
}

package client

import (
	"context"
	"iter"
	"net/url"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Replicas reads a federation as one of its replicas sees it; clusterID may be empty.
func (c *Client) Replicas(ctx context.Context, service, clusterID string) (*v1.Replicas, error) {
	return get[v1.Replicas](ctx, c, replicasPath(service), onCluster(clusterID))
}

// ReplicaPages lists how replicas stand, page by page: see pages.
func (c *Client) ReplicaPages(ctx context.Context, q ListQuery) iter.Seq2[v1.ServiceStatus, error] {
	return pages[v1.ServiceStatus](ctx, c, "/system/replicas", q)
}

// ReplicaStatuses lists how every replica stands that the caller may see; those of one cluster when
// clusterID is not empty.
func (c *Client) ReplicaStatuses(ctx context.Context, clusterID string) ([]v1.ServiceStatus, error) {
	return all(0, func() iter.Seq2[v1.ServiceStatus, error] { return c.ReplicaPages(ctx, ListQuery{ClusterID: clusterID}) })
}

// FederationPages lists the federations of a query page by page: see pages.
func (c *Client) FederationPages(ctx context.Context, q ListQuery) iter.Seq2[v1.Federation, error] {
	return pages[v1.Federation](ctx, c, "/system/federations", q)
}

// Federations lists every federation that the caller may see.
func (c *Client) Federations(ctx context.Context) ([]v1.Federation, error) {
	return c.FederationsOf(ctx, ListQuery{})
}

// FederationsOf lists every federation of a query.
func (c *Client) FederationsOf(ctx context.Context, q ListQuery) ([]v1.Federation, error) {
	return all(0, func() iter.Seq2[v1.Federation, error] { return c.FederationPages(ctx, q) })
}

// Federation reads one federation by its uid or group_id.
func (c *Client) Federation(ctx context.Context, id string) (*v1.Federation, error) {
	return get[v1.Federation](ctx, c, "/system/federations/"+url.PathEscape(id), nil)
}

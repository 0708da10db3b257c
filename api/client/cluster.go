package client

import (
	"context"
	"net/http"
	"net/url"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Clusters lists every registered cluster.
func (c *Client) Clusters(ctx context.Context) ([]v1.Cluster, error) {
	return list[v1.Cluster](ctx, c, "/system/clusters")
}

// Cluster reads one cluster.
func (c *Client) Cluster(ctx context.Context, id string) (*v1.Cluster, error) {
	return get[v1.Cluster](ctx, c, clusterPath(id), nil)
}

// RegisterCluster registers a cluster.
func (c *Client) RegisterCluster(ctx context.Context, spec v1.ClusterSpec) (*v1.Cluster, error) {
	return send[v1.Cluster](ctx, c, http.MethodPost, "/system/clusters", spec)
}

// UpdateCluster replaces what was said of a cluster.
func (c *Client) UpdateCluster(ctx context.Context, spec v1.ClusterSpec) (*v1.Cluster, error) {
	return send[v1.Cluster](ctx, c, http.MethodPut, clusterPath(spec.ClusterID), spec)
}

// RemoveCluster removes a cluster that has no services.
func (c *Client) RemoveCluster(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: clusterPath(id)})
	return err
}

// SetClusterState makes a cluster active, cordoned or paused.
func (c *Client) SetClusterState(ctx context.Context, id, state string) (*v1.Cluster, error) {
	return send[v1.Cluster](ctx, c, http.MethodPut, clusterPath(id)+"/state", v1.ClusterState{State: state})
}

func clusterPath(id string) string { return "/system/clusters/" + url.PathEscape(id) }

package client

import (
	"context"
	"net/http"
	"net/url"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// History lists the generations of a federation that are kept, newest first.
func (c *Client) History(ctx context.Context, service, clusterID string) ([]v1.Generation, error) {
	out, err := get[[]v1.Generation](ctx, c, replicasPath(service)+"/history", onCluster(clusterID))
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// Rollback makes an older definition the next generation.
func (c *Client) Rollback(ctx context.Context, service string, to int64, opts ChangeOptions) (*v1.Replicas, error) {
	return c.change(ctx, call{method: http.MethodPost, path: replicasPath(service) + "/rollback", query: url.Values{}}, v1.RollbackTo{To: to}, opts)
}

// RotateToken gives the services of a federation other tokens for the control plane.
func (c *Client) RotateToken(ctx context.Context, service, clusterID string) (*v1.Replicas, error) {
	path := replicasPath(service) + "/rotate-token"
	if clusterID != "" {
		path += "?cluster_id=" + url.QueryEscape(clusterID)
	}
	return send[v1.Replicas](ctx, c, http.MethodPost, path, nil)
}

// Pause says whether a federation's services are left alone on their clusters.
func (c *Client) Pause(ctx context.Context, service, clusterID string, paused bool) (*v1.Replicas, error) {
	path := replicasPath(service) + "/paused"
	if clusterID != "" {
		path += "?" + onCluster(clusterID).Encode()
	}
	return send[v1.Replicas](ctx, c, http.MethodPut, path, v1.Paused{Paused: paused})
}

package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

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

// SetRunState stops or starts the exposed service of a federation on all of its members, and
// says how it stands then. wait is how long the control plane waits for them; 0 means its default.
func (c *Client) SetRunState(ctx context.Context, service, clusterID string, stop bool, wait time.Duration) (*v1.Deployment, error) {
	action := "start"
	if stop {
		action = "stop"
	}
	return c.manage(ctx, service, clusterID, action, wait)
}

// Restart restarts the instances of an exposed service on its members.
func (c *Client) Restart(ctx context.Context, service, clusterID string) (*v1.Deployment, error) {
	return c.manage(ctx, service, clusterID, "restart", 0)
}

func (c *Client) manage(ctx context.Context, service, clusterID, action string, wait time.Duration) (*v1.Deployment, error) {
	in := call{method: http.MethodPost, path: "/system/services/" + url.PathEscape(service) + "/" + action, query: onCluster(clusterID), wait: wait}
	if wait > 0 {
		in.query.Set("wait", wait.String())
	}
	out, err := c.do(ctx, in)
	if err != nil {
		return nil, err
	}
	return decode[v1.Deployment](in.method, in.path, out.body)
}

// Pause says whether a federation's services are left alone on their clusters.
func (c *Client) Pause(ctx context.Context, service, clusterID string, paused bool) (*v1.Replicas, error) {
	path := replicasPath(service) + "/paused"
	if clusterID != "" {
		path += "?" + onCluster(clusterID).Encode()
	}
	return send[v1.Replicas](ctx, c, http.MethodPut, path, v1.Paused{Paused: &paused})
}

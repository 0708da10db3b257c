package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// ClusterPages lists the clusters of a query page by page: see pages.
func (c *Client) ClusterPages(ctx context.Context, q ListQuery) iter.Seq2[v1.Cluster, error] {
	query := q.values()
	query["state"] = query["phase"]
	query.Del("phase")
	return pagesOf[v1.Cluster](ctx, c, "/system/clusters", query)
}

// Clusters lists every registered cluster.
func (c *Client) Clusters(ctx context.Context) ([]v1.Cluster, error) {
	return all(0, func() iter.Seq2[v1.Cluster, error] { return c.ClusterPages(ctx, ListQuery{}) })
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

// editTries is how often EditCluster begins anew when others change the cluster.
const editTries = 5

// EditCluster changes some of what was said of a cluster, and keeps the rest also
// when others change it at the same time.
func (c *Client) EditCluster(ctx context.Context, id string, edit func(*v1.ClusterSpec)) (*v1.Cluster, error) {
	path := clusterPath(id)
	for try := 1; ; try++ {
		was, err := c.do(ctx, call{method: http.MethodGet, path: path})
		if err != nil {
			return nil, err
		}
		now, err := decode[v1.Cluster](http.MethodGet, path, was.body)
		if err != nil {
			return nil, err
		}
		spec := v1.ClusterSpec{
			ClusterID: now.ClusterID, Endpoint: now.Endpoint, SSLVerify: &now.SSLVerify, Labels: now.Labels, AllowedGroups: now.AllowedGroups,
		}
		edit(&spec)
		body, err := json.Marshal(spec)
		if err != nil {
			return nil, fmt.Errorf("PUT %s: %w", path, err)
		}
		in := call{method: http.MethodPut, path: path, body: body, header: http.Header{}}
		in.header.Set("If-Match", was.header.Get("ETag"))
		out, err := c.do(ctx, in)
		if e, ok := errors.AsType[*Error](err); ok && e.Code() == v1.CodeConflict && try < editTries {
			continue
		}
		if err != nil {
			return nil, err
		}
		return decode[v1.Cluster](http.MethodPut, path, out.body)
	}
}

// RemoveClusterOptions go with the removal of a cluster.
type RemoveClusterOptions struct {
	// Orphan keeps the local services running, without the federation's marks.
	Orphan bool
	// Force does not wait for the cluster, and deletes the federations whose
	// coordinator is there.
	Force bool
	// Wait is how long to wait until the cluster is removed; 0 does not wait.
	Wait time.Duration
}

// RemoveClusterResult is an order that is committed.
type RemoveClusterResult struct {
	// Cluster tells what a removal still waits for; nil when it is done.
	Cluster *v1.Cluster
	// Pending counts the orders that wait for the cluster to come back.
	Pending int
}

// RemoveCluster takes a cluster out of every federation and removes it. The same
// order may be given again: it waits for the same end.
func (c *Client) RemoveCluster(ctx context.Context, id string, opts RemoveClusterOptions) (*RemoveClusterResult, error) {
	in := call{method: http.MethodDelete, path: clusterPath(id), query: url.Values{"wait": {opts.Wait.String()}}, wait: opts.Wait}
	if opts.Orphan {
		in.query.Set("orphan", "true")
	}
	if opts.Force {
		in.query.Set("force", "true")
	}
	out, err := c.do(ctx, in)
	if err != nil {
		return nil, err
	}
	res := &RemoveClusterResult{}
	if res.Pending, err = strconv.Atoi(out.header.Get("Oscarfed-Pending")); err != nil {
		return nil, fmt.Errorf("%s %s: the answer does not say how many orders are pending", in.method, in.path)
	}
	if out.status == http.StatusAccepted {
		res.Cluster, err = decode[v1.Cluster](in.method, in.path, out.body)
	}
	return res, err
}

// SetClusterState makes a cluster active, cordoned or paused.
func (c *Client) SetClusterState(ctx context.Context, id, state string) (*v1.Cluster, error) {
	return send[v1.Cluster](ctx, c, http.MethodPut, clusterPath(id)+"/state", v1.ClusterState{State: state})
}

// ReadmitCluster gives a revoked cluster its rights again. What it had reported is
// forgotten. One that was paused or cordoned is so again.
func (c *Client) ReadmitCluster(ctx context.Context, id string) (*v1.Cluster, error) {
	return send[v1.Cluster](ctx, c, http.MethodPut, clusterPath(id)+"/state", v1.ClusterState{State: v1.ClusterActive, Readmit: true})
}

func clusterPath(id string) string { return "/system/clusters/" + url.PathEscape(id) }

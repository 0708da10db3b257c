package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// logWait is what the control plane may take to get a log from its cluster.
const logWait = 90 * time.Second

// LogOptions say which log of a service is meant.
type LogOptions struct {
	// ClusterID of the service, when there are several of that name.
	ClusterID string
	// Timestamps before each line.
	Timestamps bool
}

// JobLog reads what a Job of OSCAR has written, by its name there.
func (c *Client) JobLog(ctx context.Context, service, job string, opts LogOptions) ([]byte, error) {
	query := url.Values{}
	if opts.ClusterID != "" {
		query.Set("cluster_id", opts.ClusterID)
	}
	if opts.Timestamps {
		query.Set("timestamps", "true")
	}
	out, err := c.do(ctx, call{
		method: http.MethodGet, path: "/system/logs/" + url.PathEscape(service) + "/" + url.PathEscape(job), query: query, wait: logWait,
	})
	if err != nil {
		return nil, err
	}
	return out.body, nil
}

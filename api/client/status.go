package client

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Health says whether the control plane serves requests now: nil when it does.
func (c *Client) Health(ctx context.Context) error {
	out, err := c.do(ctx, call{method: http.MethodGet, path: "/health"})
	if err != nil {
		return err
	}
	// More may follow about what is not in order and stops no request.
	if !strings.HasPrefix(string(out.body), "Ok") {
		return fmt.Errorf("GET /health: answered %q: this is no control plane", excerpt(out.body))
	}
	return nil
}

// Status reads what the clusters have for jobs.
func (c *Client) Status(ctx context.Context) (*v1.SystemStatus, error) {
	return get[v1.SystemStatus](ctx, c, "/system/status", nil)
}

// Info reads versions and the number of clusters.
func (c *Client) Info(ctx context.Context) (*v1.Info, error) {
	return get[v1.Info](ctx, c, "/system/info", nil)
}

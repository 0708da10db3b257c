package client

import (
	"context"
	"fmt"
	"net/http"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Health says whether the control plane serves requests now: nil when it does.
func (c *Client) Health(ctx context.Context) error {
	out, err := c.do(ctx, call{method: http.MethodGet, path: "/health"})
	if err != nil {
		return err
	}
	if string(out.body) != "Ok" {
		return fmt.Errorf("GET /health: answered %q: this is no control plane", excerpt(out.body))
	}
	return nil
}

// Info reads versions and the number of clusters.
func (c *Client) Info(ctx context.Context) (*v1.Info, error) {
	return get[v1.Info](ctx, c, "/system/info", nil)
}

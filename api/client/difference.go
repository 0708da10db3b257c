package client

import (
	"context"
	"net/http"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Differences lists how the clusters differ from a store that was restored.
func (c *Client) Differences(ctx context.Context) (*v1.Differences, error) {
	return get[v1.Differences](ctx, c, "/system/differences", nil)
}

// Resolve takes a side in one difference, and answers how it was.
func (c *Client) Resolve(ctx context.Context, r v1.Resolve) (*v1.Difference, error) {
	return send[v1.Difference](ctx, c, http.MethodPost, "/system/differences", r)
}

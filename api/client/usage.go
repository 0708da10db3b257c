package client

import (
	"context"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Usage reads what the caller has in etcd; for the administrator, what every account has.
func (c *Client) Usage(ctx context.Context) (*v1.Usage, error) {
	return get[v1.Usage](ctx, c, "/system/usage", nil)
}

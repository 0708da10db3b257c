package client

import (
	"context"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Login reads at which issuers people log in. It needs no credentials.
func (c *Client) Login(ctx context.Context) (*v1.Login, error) {
	return get[v1.Login](ctx, c, "/system/login", nil)
}

// WhoAmI reads who the control plane takes the caller for.
func (c *Client) WhoAmI(ctx context.Context) (*v1.WhoAmI, error) {
	return get[v1.WhoAmI](ctx, c, "/system/whoami", nil)
}

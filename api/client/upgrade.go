package client

import (
	"context"
	"net/http"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// FinishUpgrade lets the control plane write as this version does, so that the version before cannot come
// back. It may be done again.
func (c *Client) FinishUpgrade(ctx context.Context) (*v1.Upgrade, error) {
	out, err := c.do(ctx, call{method: http.MethodPost, path: "/system/upgrade/finish", repeatable: true})
	if err != nil {
		return nil, err
	}
	return decode[v1.Upgrade](http.MethodPost, "/system/upgrade/finish", out.body)
}

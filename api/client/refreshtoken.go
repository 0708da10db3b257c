package client

import (
	"context"
	"net/http"
	"net/url"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// RefreshTokenOptions go with a refresh token.
type RefreshTokenOptions struct {
	// ClusterID says which service is meant when several have the name.
	ClusterID string
	// Issuer and ClientID name the provider that issued the token and the client that it was
	// issued to; empty takes them from the access token that the request is made with.
	Issuer, ClientID string
}

// RefreshToken shows how the refresh token of a service's federation stands.
func (c *Client) RefreshToken(ctx context.Context, service, clusterID string) (*v1.RefreshTokenStatus, error) {
	return c.refreshToken(ctx, http.MethodGet, service, nil, RefreshTokenOptions{ClusterID: clusterID})
}

// SetRefreshToken gives a federation a refresh token of its owner. The same one again
// changes nothing, so the call may be sent again.
func (c *Client) SetRefreshToken(ctx context.Context, service, token string, opts RefreshTokenOptions) (*v1.RefreshTokenStatus, error) {
	return c.refreshToken(ctx, http.MethodPut, service, []byte(token), opts)
}

// DeleteRefreshToken has the refresh token revoked and deleted on every cluster.
func (c *Client) DeleteRefreshToken(ctx context.Context, service, clusterID string) (*v1.RefreshTokenStatus, error) {
	return c.refreshToken(ctx, http.MethodDelete, service, nil, RefreshTokenOptions{ClusterID: clusterID})
}

func (c *Client) refreshToken(ctx context.Context, method, service string, body []byte, opts RefreshTokenOptions) (*v1.RefreshTokenStatus, error) {
	in := call{method: method, path: replicasPath(service) + "/refresh-token", query: url.Values{}, body: body}
	set(in.query, "cluster_id", opts.ClusterID)
	set(in.query, "issuer", opts.Issuer)
	set(in.query, "client_id", opts.ClientID)
	out, err := c.do(ctx, in)
	if err != nil {
		return nil, err
	}
	return decode[v1.RefreshTokenStatus](in.method, in.path, out.body)
}

package client

import (
	"context"
	"net/http"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// IssueJoin makes a token with which the syncer of a cluster joins, once and within
// 15 minutes. It is told only here.
func (c *Client) IssueJoin(ctx context.Context, cluster string, req v1.JoinRequest) (*v1.JoinToken, error) {
	return send[v1.JoinToken](ctx, c, http.MethodPost, clusterPath(cluster)+"/join", req)
}

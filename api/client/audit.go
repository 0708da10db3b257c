package client

import (
	"context"
	"net/url"
	"strconv"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// AuditQuery says which entries of the audit are wanted; what is empty matches all.
type AuditQuery struct {
	// Before is the id of an entry: only older ones are given.
	Before string
	// Limit is at most 1000; 0 means 100.
	Limit int
	// Federation is a uid or a group_id.
	Federation, By, ClusterID, RequestID string
}

// Audit lists what was done, the newest first. Only the administrator may.
func (c *Client) Audit(ctx context.Context, in AuditQuery) ([]v1.AuditEntry, error) {
	q := url.Values{}
	set(q, "before", in.Before)
	set(q, "federation", in.Federation)
	set(q, "by", in.By)
	set(q, "cluster_id", in.ClusterID)
	set(q, "request_id", in.RequestID)
	if in.Limit > 0 {
		q.Set("limit", strconv.Itoa(in.Limit))
	}
	out, err := get[[]v1.AuditEntry](ctx, c, "/system/audit", q)
	if err != nil {
		return nil, err
	}
	return *out, nil
}

package client

import (
	"cmp"
	"context"
	"iter"
	"net/url"
	"strconv"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// AuditQuery says which entries of the audit are wanted; what is empty matches all.
type AuditQuery struct {
	// Before is the id of an entry: only older ones are given.
	Before string
	// Limit is how many are read at once, 1000 at most, and of Audit how many are given; 0 means 100.
	Limit int
	// Federation is a uid or a group_id.
	Federation, By, ClusterID, RequestID string
}

// AuditPages lists what was done, the newest first, page by page: see pages. The administrator sees
// all; a user what he did, and what was done about what he owns.
func (c *Client) AuditPages(ctx context.Context, in AuditQuery) iter.Seq2[v1.AuditEntry, error] {
	return pagesOf[v1.AuditEntry](ctx, c, "/system/audit", in.values())
}

// Audit lists the newest entries, Limit at most: one page can have fewer, since what an answer
// reads is bounded.
func (c *Client) Audit(ctx context.Context, in AuditQuery) ([]v1.AuditEntry, error) {
	return all(cmp.Or(in.Limit, 100), func() iter.Seq2[v1.AuditEntry, error] { return c.AuditPages(ctx, in) })
}

func (in AuditQuery) values() url.Values {
	q := url.Values{}
	set(q, "before", in.Before)
	set(q, "federation", in.Federation)
	set(q, "by", in.By)
	set(q, "cluster_id", in.ClusterID)
	set(q, "request_id", in.RequestID)
	if in.Limit > 0 {
		q.Set("limit", strconv.Itoa(in.Limit))
	}
	return q
}

package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// EventQuery says which events are wanted; what is empty matches all.
type EventQuery struct {
	// Kinds are words of v1.AboutKinds.
	Kinds []string
	// Federation is a uid or a group_id.
	Federation, ClusterID, Owner string
	// Since is the time after which they happened.
	Since time.Time
	// Limit is at most 1000; 0 means 100.
	Limit int
}

func (in EventQuery) values() url.Values {
	q := url.Values{}
	set(q, "federation", in.Federation)
	set(q, "cluster_id", in.ClusterID)
	set(q, "owner", in.Owner)
	if len(in.Kinds) > 0 {
		q["kind"] = in.Kinds
	}
	if !in.Since.IsZero() {
		q.Set("since", in.Since.UTC().Format(time.RFC3339Nano))
	}
	if in.Limit > 0 {
		q.Set("limit", strconv.Itoa(in.Limit))
	}
	return q
}

// Events lists what has happened lately, the newest first.
func (c *Client) Events(ctx context.Context, in EventQuery) (*v1.SystemEvents, error) {
	return get[v1.SystemEvents](ctx, c, "/system/events", in.values())
}

// EventPages lists what has happened lately, the newest first, page by page. It ends with the
// first error.
func (c *Client) EventPages(ctx context.Context, in EventQuery) iter.Seq2[*v1.SystemEvents, error] {
	const path = "/system/events"
	query := in.values()
	return func(yield func(*v1.SystemEvents, error) bool) {
		for {
			out, err := c.do(ctx, call{method: http.MethodGet, path: path, query: query})
			if err != nil {
				yield(nil, err)
				return
			}
			page, err := decode[v1.SystemEvents](http.MethodGet, path, out.body)
			if !yield(page, err) || err != nil {
				return
			}
			next := out.header.Get(continueHeader)
			if next == "" {
				return
			}
			query.Set("continue", next)
		}
	}
}

// Stats counts the jobs of one federation, by its uid or its group_id; without one those of the
// caller's federations or, for the administrator, all.
func (c *Client) Stats(ctx context.Context, federation string) (*v1.Stats, error) {
	q := url.Values{}
	set(q, "federation", federation)
	return get[v1.Stats](ctx, c, "/system/stats", q)
}

package client

import (
	"context"
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

const eventsPath = "/system/events"

// Events lists what has happened lately, the newest first.
func (c *Client) Events(ctx context.Context, in EventQuery) (*v1.SystemEvents, error) {
	return get[v1.SystemEvents](ctx, c, eventsPath, in.values())
}

// AllEvents is Events with every page of them.
func (c *Client) AllEvents(ctx context.Context, in EventQuery) (list *v1.SystemEvents, err error) {
	in.Limit = v1.MaxPage
	for page, err := range answersOf[v1.SystemEvents](ctx, c, eventsPath, in.values()) {
		switch {
		case err != nil:
			return nil, err
		case list == nil:
			list = page
			continue
		case page.Since.After(list.Since.Time): // some were forgotten meanwhile
			list.Since = page.Since
		}
		list.Events = append(list.Events, page.Events...)
	}
	return list, nil
}

// Stats counts the jobs of one federation, by its uid or its group_id; without one those of the
// caller's federations or, for the administrator, all.
func (c *Client) Stats(ctx context.Context, federation string) (*v1.Stats, error) {
	q := url.Values{}
	set(q, "federation", federation)
	return get[v1.Stats](ctx, c, "/system/stats", q)
}

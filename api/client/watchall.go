package client

import (
	"context"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// WatchAllOptions go with a watch of all that the caller may see; what is empty matches all.
type WatchAllOptions struct {
	// Kinds are words of v1.EventKinds.
	Kinds []string
	// Query chooses among them; its limit does not count.
	Query ListQuery
	// Federation chooses jobs and events: a uid or a group_id.
	Federation string
	// Since is the revision behind which it begins, of Epoch; 0 begins with all that there is.
	Since int64
	Epoch string
	// Broken is called when the stream broke and is begun again; it may be nil.
	Broken func(err error)
}

// WatchAll calls fn with all of the kinds that the caller may see, and then
// with each change and deletion; it may call it twice with one. A stream that breaks is begun
// again where it was. It ends with ctx, with fn's error, or with an *Error that asking again would
// not change: one with the code expired says that changes were missed, and the caller begins anew.
func (c *Client) WatchAll(ctx context.Context, opts WatchAllOptions, fn func(*v1.Event) error) error {
	query := opts.Query.values()
	query.Del("limit")
	set(query, "federation", opts.Federation)
	set(query, "epoch", opts.Epoch)
	if len(opts.Kinds) > 0 {
		query["kind"] = opts.Kinds
	}
	return follow(ctx, c, watch[v1.Event]{
		what: "all", path: "/system/watch", query: query, event: "change", since: opts.Since, broken: opts.Broken,
		fn: func(e *v1.Event, _ int64) error { return fn(e) },
	})
}

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
	// Whole is called when a stream that began with all that there is has told it, with what it has told: of what
	// the caller knows besides, the end was missed. It may be nil.
	Whole func(there map[EventKey]bool) error
	// Again says that the caller begins anew: it tries as a watch does that had a stream.
	Again bool
}

// EventKey names what an event is about.
type EventKey struct{ Kind, Name string }

// WatchAll calls fn with all of the kinds that the caller may see, and then
// with each change and deletion; it may call it twice with one. A stream that breaks is begun
// again where it was. It ends as WatchReplicas does: an *Error with the code expired says that changes were missed, and
// the caller begins anew.
func (c *Client) WatchAll(ctx context.Context, opts WatchAllOptions, fn func(*v1.Event) error) error {
	query := opts.Query.values()
	query.Del("limit")
	set(query, "federation", opts.Federation)
	set(query, "epoch", opts.Epoch)
	if len(opts.Kinds) > 0 {
		query["kind"] = opts.Kinds
	}
	w := watch[v1.Event]{
		what: "all", path: "/system/watch", query: query, event: "change", since: opts.Since, broken: opts.Broken, connected: opts.Again,
		fn: func(e *v1.Event, _ int64) error { return fn(e) },
	}
	if opts.Whole != nil {
		var there map[EventKey]bool // nil once all was told
		w.begun = func() { there = map[EventKey]bool{} }
		w.fn = func(e *v1.Event, _ int64) error {
			if there != nil {
				there[EventKey{e.Kind, e.Name}] = !e.Deleted
			}
			return fn(e)
		}
		w.whole = func() error {
			told := there
			there = nil
			return opts.Whole(told)
		}
	}
	return follow(ctx, c, w)
}

package server

import (
	"context"
	"net/http"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/watch"
)

// Changes are the use cases that tell of all that a caller may see.
type Changes interface {
	// Check refuses a query whose revision is not known any more.
	Check(ctx context.Context, caller identity.Caller, q watch.Query) error
	// Follow tells a watcher what there is and what comes, until ctx ends or the watcher fails.
	Follow(ctx context.Context, caller identity.Caller, q watch.Query, w watch.Watcher) error
}

const watchRoute = "/system/watch"

// The events of GET /system/watch.
const (
	// eventChange has a v1.Event.
	eventChange = "change"
	// eventBookmark has a v1.Bookmark, and its revision as id.
	eventBookmark = "bookmark"
)

// watchAll answers GET /system/watch: a stream of what there is and what changes.
func (s *Server) watchAll(w http.ResponseWriter, r *http.Request) error {
	caller, p := respond.StateOf(r).Caller, paramsOf(r)
	q := watch.Query{Kinds: p.anyOf("kind", v1.EventKinds()), Epoch: p.query.Get("epoch"), Filter: p.ownedQuery(append(v1.Phases(), v1.ClusterStates()...)), Federation: p.query.Get("federation")}
	if p.query.Has("limit") || p.query.Has("continue") {
		p.violate("?limit", oscar.RuleOneOf, nil, "a watch has no pages; leave limit and continue out")
	}
	if q.Filter.Labels != nil && (len(q.Kinds) != 1 || q.Kinds[0] != v1.EventCluster) {
		p.violate("?label", oscar.RuleOneOf, nil, "only clusters are watched by their labels: add kind=cluster")
	}
	if err := p.err(); err != nil {
		return err
	}
	var err error
	if q.Since, err = lastEventID(r); err != nil {
		return err
	}
	if r.Method != http.MethodGet {
		return s.cp.Changes.Check(r.Context(), caller, q)
	}
	return s.watch(w, r, stream{
		visible: func(ctx context.Context) error { return s.cp.Changes.Check(ctx, caller, q) },
		follow: func(ctx context.Context, send func(event) error) error {
			return s.cp.Changes.Follow(ctx, caller, q, watch.Watcher{
				Event:    func(e v1.Event) error { return send(event{eventChange, 0, e}) },
				Bookmark: func(b v1.Bookmark) error { return send(event{eventBookmark, b.Revision, b}) },
			})
		},
	})
}

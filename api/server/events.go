package server

import (
	"context"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/events"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// Events is the use case that tells what has happened.
type Events interface {
	// List gives a page, and the token that continues it.
	List(ctx context.Context, caller identity.Caller, q events.Query) (out *v1.SystemEvents, next string, err error)
}

// listEvents answers GET /system/events, the newest first.
func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	q := events.Query{
		Kinds: p.anyOf("kind", v1.AboutKinds()), Federation: p.query.Get("federation"), ClusterID: p.query.Get("cluster_id"), Owner: p.query.Get("owner"),
		Since: p.moment("since"), Limit: p.limit(), Continue: p.query.Get("continue"),
	}
	if err := p.err(); err != nil {
		return err
	}
	list, next, err := s.cp.Events.List(r.Context(), respond.StateOf(r).Caller, q)
	if err != nil {
		return err
	}
	if next != "" {
		w.Header().Set(v1.ContinueHeader, next)
	}
	return respond.JSON(w, http.StatusOK, list)
}

// moment reads a time in RFC 3339; absent gives the zero time.
func (p *params) moment(name string) time.Time {
	text := p.query.Get(name)
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		p.violate("?"+name, oscar.RuleType, respond.Cut(text, 40), "give a time such as 2026-01-31T09:00:00Z")
	}
	return at
}

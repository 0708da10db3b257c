package server

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
)

// Audit is the use case that reads the audit.
type Audit interface {
	// Audit gives a page, and the token that continues it.
	Audit(ctx context.Context, caller identity.Caller, q request.AuditQuery) (entries []v1.AuditEntry, next string, err error)
}

// listAudit answers GET /system/audit, the newest first.
func (s *Server) listAudit(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	q := request.AuditQuery{
		Before: p.query.Get("before"), Federation: p.query.Get("federation"), By: p.query.Get("by"),
		ClusterID: p.query.Get("cluster_id"), RequestID: p.query.Get("request_id"),
		Limit: p.limit(), Continue: p.query.Get("continue"),
	}
	if q.Before != "" && uuid.Validate(q.Before) != nil {
		p.violate("?before", oscar.RuleType, respond.Cut(q.Before, 40), "it is no id of an entry of the audit")
	}
	if err := p.err(); err != nil {
		return err
	}
	list, next, err := s.cp.Audit.Audit(r.Context(), respond.StateOf(r).Caller, q)
	if err != nil {
		return err
	}
	if next != "" {
		w.Header().Set(v1.ContinueHeader, next)
	}
	return respond.JSON(w, http.StatusOK, list)
}

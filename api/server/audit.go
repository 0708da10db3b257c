package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
)

// Audit is the use case that reads the audit.
type Audit interface {
	Audit(ctx context.Context, caller identity.Caller, q request.AuditQuery) ([]v1.AuditEntry, error)
}

// listAudit answers GET /system/audit, the newest first.
func (s *Server) listAudit(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	q := request.AuditQuery{
		Before: p.query.Get("before"), Federation: p.query.Get("federation"), By: p.query.Get("by"),
		ClusterID: p.query.Get("cluster_id"), RequestID: p.query.Get("request_id"),
	}
	if limit := p.query.Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > request.MaxAuditPage {
			p.violate("?limit", "quantity", limit, fmt.Sprintf("give a number from 1 to %d", request.MaxAuditPage))
		}
		q.Limit = n
	}
	if err := p.err(); err != nil {
		return err
	}
	list, err := s.cp.Audit.Audit(r.Context(), respond.StateOf(r).Caller, q)
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, list)
}

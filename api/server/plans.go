package server

import (
	"context"
	"net/http"
	"regexp"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/plan"
)

// Plans are the use cases of looking before writing.
type Plans interface {
	Make(ctx context.Context, caller identity.Caller, req plan.Request) (*v1.Plan, error)
}

// planService answers POST /system/plans: what the definition in the body would do
// if it was sent to /system/services now.
func (s *Server) planService(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	req := plan.Request{Deployment: p.oneOf("deployment", "transactional", "best-effort"), Ask: p.yes("ask")}
	if err := p.err(); err != nil {
		return err
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	if req.Service, err = parseService(w, r, body); err != nil {
		return err
	}
	if req.Service.ClusterID == "" {
		req.Service.ClusterID = p.query.Get("cluster_id")
	}
	plan, err := s.cp.Plans.Make(r.Context(), respond.StateOf(r).Caller, req)
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, plan)
}

// plan reads the header that binds a request to a plan. What cannot be a digest is
// a violation, and never taken for no plan.
func (p *params) plan() string {
	values, given := p.r.Header[http.CanonicalHeaderKey(v1.PlanHeader)]
	if !given {
		return ""
	}
	if len(values) != 1 || !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(values[0]) {
		p.violate(v1.PlanHeader, oscar.RuleType, nil, "it is no digest of a plan: send the 64 hexadecimal digits that POST /system/plans answered")
		return ""
	}
	return values[0]
}

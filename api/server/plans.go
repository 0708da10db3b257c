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

// planHeader binds a creation or a change to a plan: it writes what the plan's
// digest names, or nothing.
const planHeader = "Oscarfed-Plan"

// Plans are the use cases of looking before writing.
type Plans interface {
	Make(ctx context.Context, caller identity.Caller, req plan.Request) (*plan.Plan, error)
}

// planService answers POST /system/plans: what the definition in the body would do
// if it was sent to /system/services now.
func (s *Server) planService(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	req := plan.Request{Deployment: p.oneOf("deployment", "transactional", "best-effort")}
	if err := p.err(); err != nil {
		return err
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	if req.Service, err = parseService(r, body); err != nil {
		return err
	}
	if req.Service.ClusterID == "" {
		req.Service.ClusterID = p.query.Get("cluster_id")
	}
	plan, err := s.cp.Plans.Make(r.Context(), respond.StateOf(r).Caller, req)
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, planOf(plan))
}

// plan reads the header that binds a request to a plan. What cannot be a digest is
// a violation, and never taken for no plan.
func (p *params) plan() string {
	values, given := p.r.Header[http.CanonicalHeaderKey(planHeader)]
	if !given {
		return ""
	}
	if len(values) != 1 || !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(values[0]) {
		p.violate(planHeader, oscar.RuleType, nil, "it is no digest of a plan: send the 64 hexadecimal digits that POST /system/plans answered")
		return ""
	}
	return values[0]
}

func planOf(plan *plan.Plan) v1.Plan {
	out := v1.Plan{
		Action: string(plan.Action), Coordinator: v1.Address{ClusterID: plan.Cluster, ServiceName: plan.Service},
		GroupID: plan.GroupID, Owner: plan.Owner, UID: plan.UID, Generation: plan.Generation, Revision: plan.Revision,
		NextGeneration: plan.NextGeneration, ClustersRevision: plan.Fence, Digest: plan.Digest, Deployment: plan.Deployment,
		Fields: planFields(plan.Fields), Secrets: planSecrets(plan.Secrets),
		Topology: v1.PlanTopology{
			Before: plan.TopologyBefore, After: plan.Topology, EdgesAdded: pairs(plan.EdgesAdded), EdgesRemoved: pairs(plan.EdgesRemoved),
		},
		Replicas: []v1.PlanReplica{}, Warnings: []v1.PlanWarning{},
	}
	for _, r := range plan.Replicas {
		out.Replicas = append(out.Replicas, v1.PlanReplica{
			ClusterID: r.ClusterID, ServiceName: r.ServiceName, Action: string(r.Action), Votes: r.Votes,
			DelayS: int64(r.Delay.Seconds()), Reasons: r.Reasons, Fields: planFields(r.Fields), Secrets: planSecrets(r.Secrets),
			BucketsLeft: r.Left, Spec: r.Spec,
		})
	}
	for _, warning := range plan.Warnings {
		out.Warnings = append(out.Warnings, v1.PlanWarning{
			ClusterID: warning.ClusterID, ServiceName: warning.ServiceName, Reason: string(warning.Reason), Message: warning.Message,
		})
	}
	return out
}

func planFields(list []plan.Field) []v1.PlanField {
	out := []v1.PlanField{}
	for _, f := range list {
		out = append(out, v1.PlanField{Path: f.Path, Before: f.Before, After: f.After})
	}
	return out
}

func planSecrets(list []oscar.SecretDifference) []v1.PlanSecret {
	out := []v1.PlanSecret{}
	for _, s := range list {
		out = append(out, v1.PlanSecret{Path: s.Path, Change: s.Change})
	}
	return out
}

// pairs is never null on the wire.
func pairs(list [][2]string) [][2]string {
	if list == nil {
		return [][2]string{}
	}
	return list
}

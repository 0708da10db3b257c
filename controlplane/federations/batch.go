package federations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// BatchRequest is one POST of several service definitions.
type BatchRequest struct {
	Services []*oscar.Service
	// Body is what was sent: its hash tells a repeated request from another one.
	Body []byte
	// IdempotencyKey is empty when the caller gave none.
	IdempotencyKey string
	RequestID      string
	// Wait is how long to wait for the outcome; 0 returns as soon as the request is accepted.
	Wait time.Duration
}

// BatchResult is an accepted batch, in the order of the request. A federation that was deleted
// since is as it was when it was made.
type BatchResult struct {
	Federations []view.Federation
	// Replayed and Done are as in CreateResult.
	Replayed, Done bool
}

// CreateServices makes the federations of several services, all of them on all of their clusters
// or none: transactions A and B are one each for all. It blocks until the outcome is known or
// req.Wait has passed.
func (c *Controller) CreateServices(ctx context.Context, caller identity.Caller, req BatchRequest) (*BatchResult, error) {
	began := time.Now()
	req.RequestID = request.ID(req.RequestID)
	q := request.CreateClaim(caller, request.Repeat{
		Key: req.IdempotencyKey, Method: "POST", Path: "/system/federations", Body: string(req.Body),
	}, req.RequestID)
	given := make([]tokens.Given, len(req.Services))
	for i, s := range req.Services {
		given[i] = tokens.GivenBy(caller, s.TakeRefreshToken())
	}
	first, before, err := c.accept(ctx, caller, q, func() ([]*Draft, error) { return c.draftBatch(caller, req, q.Hash, given) })
	switch {
	case err != nil:
		return nil, fault.Crossing(err)
	case before != nil:
		return c.replayBatch(before)
	}
	res := &BatchResult{Done: true}
	var uids []string
	c.state.Read(func(v *view.View) {
		for _, f := range v.BatchOf(first) {
			uids = append(uids, f.Rec.UID)
		}
	})
	var failed []error
	for _, uid := range uids {
		one, err := c.await(ctx, uid, req.Wait-time.Since(began), req.Wait == 0)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		res.Federations, res.Done = append(res.Federations, one.Federation), res.Done && one.Done
	}
	if len(uids) == 0 {
		failed = append(failed, fault.NotFound("the federations were deleted meanwhile"))
	}
	return res, fault.Crossing(failureOf(failed))
}

// draftBatch validates all services before it renders the first, and then drafts each of them.
func (c *Controller) draftBatch(caller identity.Caller, req BatchRequest, hash string, given []tokens.Given) ([]*Draft, error) {
	graphs, fence, err := c.validateBatch(caller, req, given)
	if err != nil {
		return nil, err
	}
	out := make([]*Draft, len(req.Services))
	for i, s := range req.Services {
		if out[i], err = c.draftValid(caller, s, graphs[i], fence, CreateRequest{RequestID: req.RequestID}, hash, given[i]); err != nil {
			return nil, ofService(s, err)
		}
		if out[i].Fed.Epoch != out[0].Fed.Epoch {
			return nil, gate.ErrFence
		}
	}
	if len(out) > 1 {
		for _, d := range out {
			d.Fed.Batch = out[0].Fed.UID
		}
	}
	return out, checkBatch(out)
}

// ofService names the service that an error is about.
func ofService(s *oscar.Service, err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Failed == nil {
		told := *e
		told.Message = fmt.Sprintf("service %q: %s", s.Name, e.Message)
		return &told
	}
	return err
}

// validateBatch returns the graphs of all services, and the revision of the fence at which the
// registered clusters were read; or all violations, with paths that begin with services[i].
func (c *Controller) validateBatch(caller identity.Caller, req BatchRequest, given []tokens.Given) ([]*topology.Graph, int64, error) {
	check := batchCheck{groups: map[string]int{}, locations: map[string]int{}}
	var fence int64
	for i, s := range req.Services {
		g, at, err := c.Validate(caller, s, CreateRequest{}, given[i])
		if e, ok := errors.AsType[*fault.Error](err); ok && len(e.Violations) > 0 {
			for _, v := range e.Violations {
				check.report(i, v.Path, v.Rule, v.Value, v.Message)
			}
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if fence == 0 {
			fence = at
		}
		if at != fence {
			return nil, 0, gate.ErrFence
		}
		check.add(i, g)
	}
	if n := len(req.Services); n > oscar.MaxBatch {
		check.violations = append(check.violations, oscar.Violation{
			Path: "services", Rule: oscar.RuleMaxMembers, Value: n,
			Message: fmt.Sprintf("all or none is possible for %d services; create the others by requests of their own", oscar.MaxBatch),
		})
	}
	if check.replicas > oscar.MaxReplicas {
		check.violations = append(check.violations, oscar.Violation{
			Path: "services", Rule: oscar.RuleMaxMembers, Value: check.replicas,
			Message: fmt.Sprintf("all or none is possible for %d replicas together; create the services by requests of their own", oscar.MaxReplicas),
		})
	}
	if len(check.violations) > 0 {
		return nil, 0, fault.Invalid(check.violations...)
	}
	return check.graphs, fence, c.mayBatch(len(req.Services))
}

// mayBatch refuses a batch while an instance may run that would take a step of one federation alone.
func (c *Controller) mayBatch(services int) error {
	var ready bool
	c.state.Read(func(v *view.View) { ready = v.MayWrite(record.FormBatch) })
	if ready || services == 1 {
		return nil
	}
	return &fault.Error{Code: fault.CodeUnavailable, RetryAfter: time.Minute,
		Message: "several services at once are created when the upgrade of the control plane is finished: create each by a request of its own, or ask an administrator for `oscarfed finish-upgrade`"}
}

// batchCheck holds the services of a batch against each other.
type batchCheck struct {
	graphs     []*topology.Graph
	replicas   int
	violations []oscar.Violation
	// groups and locations have the service that took each.
	groups, locations map[string]int
}

func (b *batchCheck) report(i int, path, rule string, value any, message string) {
	b.violations = append(b.violations, oscar.Violation{Path: fmt.Sprintf("services[%d].%s", i, path), Rule: rule, Value: value, Message: message})
}

// add checks the graph of one service beside those before it.
func (b *batchCheck) add(i int, g *topology.Graph) {
	b.graphs = append(b.graphs, g)
	if g.Deployment == oscar.DeploymentBestEffort {
		b.report(i, "federation.deployment", oscar.RuleOneOf, g.Deployment, "the services of one request are made all or none: create this one by a request of its own")
	}
	if at, taken := b.groups[g.GroupID]; taken {
		b.report(i, "federation.group_id", oscar.RuleUnique, g.GroupID, fmt.Sprintf("services[%d] has the same group_id", at))
	}
	b.groups[g.GroupID] = i
	for _, n := range g.Nodes {
		if !n.Replica() {
			continue
		}
		b.replicas++
		at := n.Member.ClusterID + "/" + n.Member.ServiceName
		if other, taken := b.locations[at]; taken {
			b.report(i, "federation.members", oscar.RuleUnique, at, fmt.Sprintf("services[%d] puts a replica there, too", other))
		}
		b.locations[at] = i
	}
}

// failureOf is the error of a batch: that of a federation that failed itself, before those that
// only ended with it, with the replicas of all of them.
func failureOf(failed []error) error {
	var first *fault.Error
	for _, err := range failed {
		e, ok := errors.AsType[*fault.Error](err)
		if !ok {
			return err
		}
		if first == nil || caused(e) && !caused(first) {
			first = e
		}
	}
	if first == nil {
		return nil
	}
	out := *first
	if out.Failed == nil {
		return &out
	}
	whole := *out.Failed
	for _, err := range failed {
		e, _ := errors.AsType[*fault.Error](err)
		if e != first && e.Failed != nil {
			whole.Replicas = slices.Concat(whole.Replicas, e.Failed.Replicas)
		}
	}
	out.Failed = &whole
	return &out
}

// caused says whether a creation failed by a replica of its own.
func caused(e *fault.Error) bool {
	return e.Failed != nil && slices.ContainsFunc(e.Failed.Replicas, func(r v1.FailedReplica) bool { return r.Cause != nil })
}

// replayBatch answers a repeated request from the record of the first.
func (c *Controller) replayBatch(r *request.Accepted) (*BatchResult, error) {
	kept := r.Answer.Batch
	if len(kept) == 0 && r.Answer.Federation != nil {
		kept = []*record.Federation{r.Answer.Federation}
	}
	var failed []error
	res := &BatchResult{Replayed: true, Done: true}
	for _, f := range kept {
		if f.Phase.Result() {
			failed = append(failed, view.FailedError(f))
			continue
		}
		if now, ok := c.federationByUID(f.UID); ok {
			res.Federations = append(res.Federations, now.Federation)
			continue
		}
		var then view.Federation
		c.state.Read(func(v *view.View) { then = v.Show(f, r.Revision).Federation })
		then.WasReady()
		res.Federations = append(res.Federations, then)
	}
	slices.SortFunc(res.Federations, func(a, b view.Federation) int { return cmp.Compare(a.UID, b.UID) })
	return res, failureOf(failed)
}

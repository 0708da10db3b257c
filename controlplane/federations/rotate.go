package federations

import (
	"context"
	"errors"

	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// RotateToken gives every service of a federation another control-plane token. The control
// plane refuses the former tokens from then on, including the service tokens of their lives; at
// their OSCAR nothing changes.
func (c *Controller) RotateToken(ctx context.Context, caller identity.Caller, service, clusterID, req string) (*view.Replicas, error) {
	req = request.ID(req)
	for {
		if err := c.gate.Fresh(ctx); err != nil {
			return nil, err
		}
		p, _, err := c.Changeable(Change{Caller: caller, Service: service, ClusterID: clusterID})
		if err != nil {
			return nil, err
		}
		err = c.writeRotation(ctx, caller, p, req)
		if errors.Is(err, gate.ErrStale) {
			continue
		}
		if err != nil {
			return nil, fault.Crossing(err)
		}
		return c.Replicas(ctx, caller, service, clusterID)
	}
}

func (c *Controller) writeRotation(ctx context.Context, caller identity.Caller, p view.MemberRef, request string) error {
	s, rev, ok := c.situation(p.UID)
	if !ok || rev != p.Rev {
		return gate.ErrStale
	}
	next := s.Fed
	next.TokenRotation++
	next.RequestID, next.By, next.ChangedAt = request, caller.Subject, record.At(s.Now)
	d := decide.Decision{Step: decide.StepRotateToken, Fed: &next}
	return c.orderStep(ctx, s, rev, d)
}

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
// their OSCAR nothing changes. The same request again makes no further ones: who has sent it may have the tokens.
func (c *Controller) RotateToken(ctx context.Context, caller identity.Caller, service, clusterID, req string, repeat request.Repeat) (*ChangeResult, error) {
	q, tries := request.ClaimOf(caller, repeat, request.ID(req)), gate.NewRetries()
	shown := func(again bool) (*ChangeResult, error) {
		out, err := c.Replicas(ctx, caller, service, clusterID)
		if err != nil {
			return nil, err
		}
		return &ChangeResult{Replicas: *out, Replayed: again}, nil
	}
	for {
		if err := c.gate.Fresh(ctx); err != nil {
			return nil, err
		}
		r, err := c.requests.Repeated(ctx, q)
		if err != nil {
			return nil, fault.Crossing(err)
		}
		if r != nil {
			return shown(true)
		}
		p, _, err := c.Changeable(Change{Caller: caller, Service: service, ClusterID: clusterID})
		if err != nil {
			return nil, err
		}
		err = c.writeRotation(ctx, caller, p, q)
		if errors.Is(err, gate.ErrStale) || errors.Is(err, request.ErrAccepted) {
			if err := tries.Next(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fault.Crossing(err)
		}
		return shown(false)
	}
}

func (c *Controller) writeRotation(ctx context.Context, caller identity.Caller, p view.MemberRef, q request.Claim) error {
	s, rev, ok := c.situation(p.UID)
	if !ok || rev != p.Rev {
		return gate.ErrStale
	}
	next := s.Fed
	next.TokenRotation++
	next.RequestID, next.By, next.ChangedAt = q.RequestID, caller.Subject, record.At(s.Now)
	d := decide.Decision{Step: decide.StepRotateToken, Fed: &next}
	return c.orderStep(ctx, s, rev, d, q)
}

package federations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// RunStateRequest orders all members of a federation to be started or stopped.
type RunStateRequest struct {
	Service, ClusterID string
	RequestID          string
	Stop               bool
	// Wait is how long the request waits for the members that can be reached.
	Wait time.Duration
}

// SetRunState starts or stops the exposed service of a federation on all of its clusters. The
// order is one transaction. It is no generation, since the definition stays as it is: it holds
// for members that are added later, and through changes and rollbacks, until the next order.
func (c *Controller) SetRunState(ctx context.Context, caller identity.Caller, in RunStateRequest) error {
	in.RequestID = request.ID(in.RequestID)
	began, tries := time.Now(), gate.NewRetries()
	for {
		if err := c.gate.Fresh(ctx); err != nil {
			return err
		}
		p, _, err := c.Changeable(Change{Caller: caller, Service: in.Service, ClusterID: in.ClusterID})
		if err != nil {
			return err
		}
		err = c.writeRunState(ctx, caller, p, in)
		if errors.Is(err, gate.ErrStale) {
			if err := tries.Next(ctx, err); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return fault.Crossing(err)
		}
		return fault.Crossing(c.awaitRunState(ctx, p.UID, in.Wait-time.Since(began)))
	}
}

func (c *Controller) writeRunState(ctx context.Context, caller identity.Caller, p view.MemberRef, in RunStateRequest) error {
	definition, _, err := c.current(ctx, p.Rec)
	if err != nil {
		return err
	}
	if !definition.Exposed() {
		return &fault.Error{Code: fault.CodeInvalid, Message: fmt.Sprintf("service %q is not exposed", in.Service)}
	}
	s, rev, ok := c.situation(p.UID)
	if !ok || rev != p.Rev {
		return gate.ErrStale
	}
	if err := s.Understood(); err != nil {
		return err
	}
	state := record.RunStarted
	if in.Stop {
		state = record.RunStopped
	}
	next := s.Fed
	next.RunState, next.RequestID, next.By, next.ChangedAt = state, in.RequestID, caller.Subject, record.At(s.Now)
	d := decide.Decision{Step: decide.StepRunState, Fed: &next}
	all := s.Replicas
	if s.Fed.Change != nil && !s.Fed.Change.Unexposed {
		all = slices.Concat(all, s.Adding)
	}
	for _, r := range all {
		if r.Desired == nil || r.Desired.Tombstone() || r.Desired.RunState == state {
			continue
		}
		rec := *r.Desired
		rec.RunState = state
		d.Put = append(d.Put, decide.PlacedAt(r, &rec))
	}
	if s.Fed.RunState == state && len(d.Put) == 0 {
		return nil
	}
	return c.orderStep(ctx, s, rev, d, request.Claim{})
}

// awaitRunState waits until no member that can be reached is still to be started or stopped.
func (c *Controller) awaitRunState(ctx context.Context, uid string, wait time.Duration) error {
	return c.state.Follow(ctx, uid, wait, func(over bool) (bool, error) {
		atWork := false
		c.state.Read(func(v *view.View) {
			f := v.Federations.Get(uid)
			if f.Rec == nil {
				return
			}
			s := v.Situation(f.Rec)
			atWork = slices.ContainsFunc(s.Replicas, func(r view.ReplicaState) bool {
				return r.RunStatePending() && r.RunStates && r.WhyAway() == "" && !r.Desired.Paused
			})
		})
		return over || !atWork, nil
	})
}

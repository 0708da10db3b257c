package federations

import (
	"context"
	"errors"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Pause pauses or resumes every change of a federation's services on their clusters.
// Its definition can be changed meanwhile; such changes are applied when the pause ends. It is
// one transaction.
func (c *Controller) Pause(ctx context.Context, caller identity.Caller, service, clusterID, requestID string, paused bool) (*view.Replicas, error) {
	if requestID == "" {
		requestID = record.NewUID()
	}
	tries := gate.NewRetries()
	for {
		if err := c.gate.Fresh(ctx); err != nil {
			return nil, err
		}
		p, _, err := c.Changeable(Change{Caller: caller, Service: service, ClusterID: clusterID})
		if err != nil {
			return nil, err
		}
		err = c.writePause(ctx, caller, p, requestID, paused)
		if errors.Is(err, gate.ErrStale) {
			if err := tries.Next(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fault.Crossing(err)
		}
		return c.Replicas(ctx, caller, service, clusterID)
	}
}

func (c *Controller) writePause(ctx context.Context, caller identity.Caller, p view.MemberRef, requestID string, paused bool) error {
	s, rev, ok := c.situation(p.UID)
	if !ok || rev != p.Rev { // it may be one that is being deleted by now
		return gate.ErrStale
	}
	if s.Fed.Paused == paused {
		return nil
	}
	next := s.Fed
	next.Paused, next.RequestID, next.By, next.ChangedAt = paused, requestID, caller.Subject, record.At(s.Now)
	d := decide.Decision{Step: decide.StepPause, Fed: &next}
	for _, r := range slices.Concat(s.Replicas, s.Adding) {
		if r.Desired == nil || r.Desired.Tombstone() {
			continue
		}
		rec := *r.Desired
		rec.Paused = next.Halted()
		d.Put = append(d.Put, decide.PlacedAt(r, &rec))
	}
	return c.orderStep(ctx, s, rev, d, request.Claim{})
}

// orderStep takes a step that a request orders, on the record of this revision, and waits until
// the state shows it. It returns ErrStale when the record has changed since, and request.ErrAccepted when the same
// request was carried out since it was looked for.
func (c *Controller) orderStep(ctx context.Context, s view.Situation, rev int64, d decide.Decision, q request.Claim) error {
	all := steps{{s, rev, d}}
	res, err := c.store.Update(ctx, store.Update{
		Keys: append(q.Keys(), all.keys()...), RequestID: d.Fed.RequestID, Marker: record.FederationKey(s.Fed.UID),
		Build: func(v store.View, tx *store.Txn) error {
			if err := c.requests.Free(q, v); err != nil {
				return err
			}
			q.Write(tx, s.Fed.UID, record.At(s.Now), request.AnswerOf(d))
			return all.put(v, tx)
		},
	})
	if err != nil {
		return err
	}
	return c.gate.Shows(ctx, res.Revision)
}

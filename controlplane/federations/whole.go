package federations

import (
	"context"
	"errors"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// makeWhole gives a replica a copy of its own of what it was sent in parts. It stays in its
// generation: its OSCAR is to have what it had. When no envelope holds its secrets, or etcd is
// short of space, the decision is empty, and the log says why.
func (c *Controller) makeWhole(ctx context.Context, s view.Situation, uid string) (decide.Decision, error) {
	r := s.Replicas[slices.IndexFunc(s.Replicas, func(r view.ReplicaState) bool { return r.At.UID == uid })]
	var fence int64
	var to seal.Recipient
	c.state.Read(func(v *view.View) { fence, to = v.Fence, v.SealsTo(r.At.ClusterID) })
	rec := *r.Desired
	rec.Spec = record.WholeSpecName(record.ChangedSpecName(r.At.ServiceName, uid, rec.Generation, record.NewUID()))
	whole, err := c.wholeSpec(ctx, r, to)
	if err == nil {
		err = c.stageWhole(ctx, &s.Fed, gate.Staged{Key: record.SpecKey(r.At.ClusterID, rec.Spec), Rec: whole})
	}
	if _, short := errors.AsType[*fault.Error](err); short || errors.Is(err, seal.ErrTooLarge) {
		c.cfg.Logger.Warn("a replica stays in parts that its syncer does not read", "federation", s.Fed.UID,
			"cluster", r.At.ClusterID, "service", r.At.ServiceName, "error", err)
		return decide.Decision{}, nil
	}
	if err != nil {
		return decide.Decision{}, err
	}
	next := s.Fed
	return decide.Decision{Step: decide.StepWhole, Fed: &next, Put: []gate.Placed{decide.PlacedAt(r, &rec)}, Fence: fence}, nil
}

// wholeSpec is the spec of a replica without parts.
func (c *Controller) wholeSpec(ctx context.Context, r view.ReplicaState, to seal.Recipient) (record.Spec, error) {
	kv, err := c.store.Get(ctx, record.SpecKey(r.At.ClusterID, r.Desired.Spec))
	if errors.Is(err, store.ErrNotFound) {
		err = gate.ErrStale // a change has replaced it
	}
	if err != nil {
		return record.Spec{}, err
	}
	spec, err := store.Decode[record.Spec](kv)
	if err != nil {
		return record.Spec{}, err
	}
	service, patch, err := c.OpenSpec(ctx, r.At.ClusterID, r.Desired, spec)
	if err != nil {
		return record.Spec{}, err
	}
	spec.Service, spec.Parts, spec.Changes = service, nil, nil
	h := seal.Header{Purpose: seal.PurposeSpec, Cluster: r.At.ClusterID, UID: r.Desired.UID, Generation: r.Desired.Generation}
	spec.Sealed, err = c.sealer.Seal(h, patch, c.sealer.Own(), to)
	return *spec, err
}

func (c *Controller) stageWhole(ctx context.Context, f *record.Federation, spec gate.Staged) error {
	release, err := c.gate.ReserveSpace(gate.BytesThrough(*f, nil, spec))
	if err != nil {
		return err
	}
	defer release()
	return c.Stage(ctx, []gate.Staged{spec})
}

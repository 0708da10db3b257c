package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// SetClusterState cordons a cluster (nothing new is placed on it), pauses it (its
// syncer changes nothing) or makes it active again. Only the administrator may.
func (c *ControlPlane) SetClusterState(ctx context.Context, caller identity.Caller, id, word string) (*Cluster, error) {
	state := record.ClusterState(word)
	if !caller.Administrator {
		return nil, adminOnly()
	}
	if !slices.Contains([]record.ClusterState{record.ClusterActive, record.ClusterPaused, record.ClusterCordoned}, state) {
		return nil, &Error{Code: CodeInvalid, Message: fmt.Sprintf("state %q is unknown; use active, cordoned or paused", word), Violations: []oscar.Violation{{
			Path: "state", Rule: oscar.RuleOneOf, Value: word, Message: "use active, cordoned or paused"}}}
	}
	key, desired := record.ClusterKey(id), record.DesiredClusterKey(id)
	return c.writeCluster(ctx, []string{key, desired, record.FenceKey}, id, func(v store.View, tx *store.Txn) error {
		kv, ok := v.KV(key)
		order, told := v.KV(desired)
		if !ok || !told {
			return notFound(fmt.Sprintf("cluster %q is not registered", id))
		}
		reg, err := store.Decode[record.Cluster](kv)
		if err != nil {
			return err
		}
		d, err := store.Decode[record.DesiredCluster](order)
		if err != nil {
			return err
		}
		if word := cmp.Or(record.Strange(reg), record.Strange(d)); word != "" {
			return newerVersion(fmt.Sprintf("cluster %q", id), word)
		}
		if reg.Removal != nil {
			return &Error{Code: CodeConflict, Message: fmt.Sprintf("cluster %q is being removed; that cannot be taken back", id)}
		}
		if reg.Revoked != nil {
			return &Error{Code: CodeConflict, Message: fmt.Sprintf("cluster %q is revoked (%s); readmit it first: oscarfed cluster readmit %s", id, reg.Revoked.Message, id)}
		}
		if reg.State == state && d.State == state {
			return nil
		}
		reg.State, d.State = state, state
		tx.Expect(key)
		tx.Expect(desired)
		tx.Put(key, reg)
		tx.Put(desired, d)
		note(tx, c.cfg.Now(), record.Audit{By: caller.Subject, Action: record.ActionClusterState, Outcome: record.OutcomeDone, ClusterID: id, Detail: word})
		return bumpFence(v, tx, string(state)+" "+id)
	})
}

// PauseFederation stops, or lets go on again, every change of a federation's
// services on their clusters. Its definition can be changed meanwhile; what was
// changed is applied when the pause ends. It is one transaction.
func (c *ControlPlane) PauseFederation(ctx context.Context, caller identity.Caller, service, clusterID, requestID string, paused bool) (*Replicas, error) {
	if requestID == "" {
		requestID = newUID()
	}
	tries := newRetries()
	for {
		if err := c.fresh(ctx); err != nil {
			return nil, err
		}
		p, _, err := c.changeable(change{caller: caller, service: service, clusterID: clusterID})
		if err != nil {
			return nil, err
		}
		err = c.writePause(ctx, caller, p, requestID, paused)
		if errors.Is(err, errStale) {
			if err := tries.next(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, crossing(err)
		}
		return c.Replicas(ctx, caller, service, clusterID)
	}
}

func (c *ControlPlane) writePause(ctx context.Context, caller identity.Caller, p place, requestID string, paused bool) error {
	s, rev, ok := c.decider.situation(p.uid)
	if !ok || rev != p.rev { // it may be one that is being deleted by now
		return errStale
	}
	if s.fed.Paused == paused {
		return nil
	}
	next := s.fed
	next.Paused, next.RequestID, next.By, next.ChangedAt = paused, requestID, caller.Subject, record.At(s.now)
	d := decision{name: "pause", fed: &next}
	for _, r := range slices.Concat(s.replicas, s.adding) {
		if r.desired == nil || r.desired.Tombstone() {
			continue
		}
		rec := *r.desired
		rec.Paused = paused
		d.put = append(d.put, r.place(&rec))
	}
	return c.orderStep(ctx, s, rev, d)
}

// orderStep takes a step that a request orders, on the record of this revision, and waits
// until it shows. It is errStale when the record has changed since.
func (c *ControlPlane) orderStep(ctx context.Context, s situation, rev int64, d decision) error {
	key := record.FederationKey(s.fed.UID)
	res, err := c.store.Update(ctx, store.Update{
		Keys: []string{key}, RequestID: d.fed.RequestID, Marker: key,
		Build: func(v store.View, tx *store.Txn) error {
			if kv, ok := v.KV(key); !ok || kv.ModRevision != rev {
				return errStale
			}
			tx.Expect(key)
			return d.write(s, v, tx)
		},
	})
	if err != nil {
		return err
	}
	return c.shows(ctx, res.Revision)
}

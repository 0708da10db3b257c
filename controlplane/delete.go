package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// DeleteService turns a federation into tombstones in one transaction; a creation
// in flight is made to roll back. Buckets and objects stay unless opts.Data orders
// otherwise. It waits, up to opts.Wait, until every reachable cluster has
// acknowledged, and says how many have not.
func (c *ControlPlane) DeleteService(ctx context.Context, caller identity.Caller, service string, opts DeleteOptions) (*DeleteResult, error) {
	began := time.Now()
	if opts.RequestID == "" {
		opts.RequestID = newUID()
	}
	for {
		if err := c.fresh(ctx); err != nil {
			return nil, err
		}
		p, err := c.find(caller, service, opts.ClusterID)
		if err != nil && opts.Jobs != "" {
			p, err = c.leaving(caller, service, opts.ClusterID, err)
		}
		if err != nil {
			return nil, err
		}
		if p.rec.Phase.Result() {
			return nil, notFound(fmt.Sprintf("there is no service %q", service))
		}
		if !caller.MayChange(p.rec.Owner) {
			return nil, &Error{Code: CodeForbidden, Message: fmt.Sprintf("service %q can be deleted by its owner only", service)}
		}
		if !p.at().Coordinator {
			return c.removeMember(ctx, caller, p, opts)
		}
		c.fail("before_delete")
		err = c.writeDelete(ctx, p.uid, opts)
		if errors.Is(err, errStale) {
			continue
		}
		if err != nil {
			return nil, crossing(err)
		}
		c.fail("after_delete")
		return c.awaitGone(ctx, p.uid, opts.Wait-time.Since(began), func(s situation) []replicaState {
			return slices.Concat(s.replicas, s.leaving)
		}), nil
	}
}

// removeMember is the deletion of a replica that is not the coordinator: the others stay.
func (c *ControlPlane) removeMember(ctx context.Context, caller identity.Caller, p place, opts DeleteOptions) (*DeleteResult, error) {
	m, at := p.at(), p.rec.Coordinator()
	_, err := c.ChangeReplicas(ctx, caller, at.ServiceName, ReplicasRequest{
		ClusterID: at.ClusterID, RequestID: opts.RequestID,
		Remove: []oscar.Member{{Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName}},
	})
	if err != nil {
		return nil, err
	}
	return c.awaitGone(ctx, p.uid, opts.Wait, func(s situation) []replicaState { return s.leaving }), nil
}

func (c *ControlPlane) writeDelete(ctx context.Context, uid string, opts DeleteOptions) error {
	s, rev, ok := c.decider.situation(uid)
	if !ok {
		return errStale
	}
	var d decision
	switch s.fed.Phase {
	case record.PhasePreparing:
		d = abort(s, func(replicaState) *record.Failure { return nil })
	case record.PhaseApplying:
		d = rollBack(s, func(replicaState) *record.Failure { return nil })
	case record.PhaseReady:
		d = deletion(s, opts)
	case record.PhaseDeleting:
		d = hurry(s, opts)
	default:
		return nil
	}
	if d.fed.Phase != record.PhaseDeleting {
		d.fed.Code, d.fed.Detail = string(CodeConflict), "the creation was ended by a deletion"
	}
	key := record.FederationKey(uid)
	keys := []string{key}
	if s.fed.Request != "" {
		keys = append(keys, record.RequestKey(s.fed.Request))
	}
	d.fed.RequestID = opts.RequestID
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, RequestID: opts.RequestID, Marker: key,
		Build: func(v store.View, tx *store.Txn) error {
			if kv, ok := v.KV(key); !ok || kv.ModRevision != rev {
				return errStale
			}
			tx.Expect(key)
			return d.write(s.fed, v, tx)
		},
	})
	if err != nil {
		return err
	}
	return c.shows(ctx, res.Revision)
}

// deletion turns every replica into a tombstone and frees the name.
func deletion(s situation, opts DeleteOptions) decision {
	next := s.fed
	next.Phase, next.Deadline, next.ChangedAt = record.PhaseDeleting, nil, record.At(s.now)
	next.Members, next.Change = slices.Clone(s.fed.Members), nil
	d := decision{name: "delete", fed: &next, dropName: true}
	if s.fed.Change != nil {
		d = dropChange(s, d)
	}
	for _, r := range s.replicas {
		if r.desired == nil {
			continue
		}
		t := s.farewell(r, record.CauseDeleted, opts.RequestID)
		t.Data, t.Jobs = opts.Data, opts.Jobs
		if r.desired.Intent == record.IntentPrepare {
			// Never applied: nothing can be there.
			d.remove = append(d.remove, r.removal(s))
			continue
		}
		d.put = append(d.put, r.place(t))
	}
	return d
}

// leaving finds a federation that is being deleted, for an order that hurries it;
// otherwise the answer stays what it was.
func (c *ControlPlane) leaving(caller identity.Caller, service, clusterID string, otherwise error) (place, error) {
	out, err := place{}, otherwise
	c.state.read(func() {
		for uid := range c.state.named[service] {
			f, rev := c.state.federations[uid].rec, c.state.federations[uid].rev
			m := f.Coordinator()
			if f.Phase == record.PhaseDeleting && caller.MayChange(f.Owner) && m != nil && m.ServiceName == service &&
				(clusterID == "" || m.ClusterID == clusterID) {
				out, err = place{uid: uid, rec: f, rev: rev, member: memberOf(f.Members, m.UID)}, nil
			}
		}
	})
	return out, err
}

// hurry orders the jobs that hold a deletion to be ended.
func hurry(s situation, opts DeleteOptions) decision {
	next := s.fed
	next.ChangedAt = record.At(s.now)
	d := decision{name: "hurry", fed: &next}
	for _, r := range slices.Concat(s.replicas, s.leaving) {
		if r.desired == nil || r.acknowledged() {
			continue
		}
		t := *r.desired
		t.RequestID, t.Jobs = opts.RequestID, opts.Jobs
		d.put = append(d.put, r.place(&t))
	}
	return d
}

// awaitGone waits until no reachable cluster holds a tombstone of those that are
// looked at.
func (c *ControlPlane) awaitGone(ctx context.Context, uid string, wait time.Duration, of func(situation) []replicaState) *DeleteResult {
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	for {
		changed := c.state.watch()
		pending, reachable := 0, 0
		c.state.read(func() {
			f, ok := c.state.federations[uid]
			if !ok {
				return
			}
			for _, r := range of(c.state.situation(f.rec)) {
				if r.desired == nil {
					continue
				}
				if !r.acknowledged() {
					pending++
				}
				if !r.settled() || r.acknowledged() {
					reachable++
				}
			}
		})
		if reachable == 0 {
			return &DeleteResult{Pending: pending}
		}
		select {
		case <-changed:
		case <-timer.C:
			return &DeleteResult{Pending: pending}
		case <-ctx.Done():
			return &DeleteResult{Pending: pending}
		}
	}
}

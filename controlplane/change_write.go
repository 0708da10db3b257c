package controlplane

import (
	"context"
	"errors"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// tryChange writes one attempt: the whole change when nobody has to vote, else
// the prepare records of the members that it adds.
func (c *ControlPlane) tryChange(ctx context.Context, id change, p place, fn edit) error {
	d, err := c.draftChange(ctx, id.requestID, p, fn)
	if err != nil {
		return err
	}
	if err := asPlanned(id.plan, func() string { return c.digestOfChange(id.caller, d) }); err != nil || !d.differs {
		return err
	}
	if !id.removes {
		if err := c.roomToAdd(); err != nil {
			return err
		}
	}
	if err := c.stage(ctx, d.before); err != nil {
		return err
	}
	return c.commitChange(ctx, d)
}

// draftChange makes everything that a change writes. It writes nothing.
func (c *ControlPlane) draftChange(ctx context.Context, requestID string, p place, fn edit) (*changeDraft, error) {
	old, err := c.withSecrets(ctx, p.rec)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errStale // a newer generation has taken its place
	}
	if err != nil {
		return nil, err
	}
	s, differs, err := fn(old)
	if err != nil {
		return nil, err
	}
	// The transaction will compare the revision of this situation. It must be the one
	// that was found changeable, and that If-Match was held against.
	sit, rev, ok := c.decider.situation(p.uid)
	if !ok || rev != p.rev {
		return nil, errStale
	}
	d := &changeDraft{sit: sit, rev: rev, old: old, service: s, differs: differs, specs: map[string]string{}}
	if !differs {
		d.next, d.service = sit.fed, old
		return d, nil
	}
	g, fence, err := c.validateChange(s.Clone(), p.rec) // it is kept as it was submitted
	if err != nil {
		return nil, err
	}
	d.fence = fence
	d.next = nextGeneration(sit.fed, s, g, requestID, sit.now)
	r := c.renderer(s, g, d.next)
	attempt := newUID() // what another attempt of this request has written stays as it is
	r.name = func(service, uid string) string {
		return record.ChangedSpecName(service, uid, d.next.Generation, attempt)
	}
	if err := r.neverConnected(d.next); err != nil {
		return nil, err
	}
	return d, c.renderChange(r, d)
}

// nextGeneration is the federation as it will be; members that stay keep their life.
func nextGeneration(f record.Federation, s *oscar.Service, g *topology.Graph, requestID string, now time.Time) record.Federation {
	next := f
	next.Generation++
	next.RequestID, next.Topology, next.Delegation, next.Drift = requestID, g.Topology, g.Delegation, g.Drift
	next.ReschedulerThreshold, next.Visibility, next.AllowedUsers, next.Prefetch = g.ReschedulerThreshold, s.Visibility, s.AllowedUsers, s.ImagePrefetch
	next.ChangedAt = record.At(now)
	next.Members = nil
	lives := map[string]string{}
	for _, m := range f.Members {
		lives[m.ClusterID+"/"+m.ServiceName] = m.UID
	}
	for _, n := range g.Nodes {
		m := member(n)
		if n.Replica() {
			m.UID = lives[m.ClusterID+"/"+m.ServiceName]
			if m.UID == "" {
				m.UID = newUID()
			}
		}
		next.Members = append(next.Members, m)
	}
	return next
}

// changeDraft is an attempt made ready.
type changeDraft struct {
	// sit is what it was decided on, and rev the revision of the federation then.
	sit situation
	rev int64
	// fence is the revision that the clusters were validated at.
	fence int64
	// old and service are the definitions before and after, with their secrets.
	old, service *oscar.Service
	// differs is false when nothing is to be written.
	differs   bool
	next      record.Federation
	specs     map[string]string
	added     []placed
	rendered  []rendered
	before    []staged
	submitted []staged
}

func (c *ControlPlane) renderChange(r *renderer, d *changeDraft) error {
	until := record.At(d.sit.now.Add(c.cfg.PrepareDeadline))
	all, err := r.replicas(d.next.Members)
	if err != nil {
		return err
	}
	for _, one := range all {
		desired := one.desired
		d.before = append(d.before, one.spec)
		d.rendered = append(d.rendered, one.what)
		if memberOf(d.sit.fed.Members, desired.rec.UID) >= 0 {
			d.specs[desired.rec.UID] = desired.rec.Spec
			continue
		}
		desired.rec.Deadline = &until
		if d.next.Deployment == oscar.DeploymentBestEffort {
			desired.rec.Deadline = nil
		}
		d.added = append(d.added, desired)
	}
	submitted, err := r.submitted()
	d.submitted = submitted
	return err
}

// commitChange is the transaction of an attempt. Members that are added to a
// transactional federation vote first; to one of best effort they come when they can.
func (c *ControlPlane) commitChange(ctx context.Context, d *changeDraft) error {
	sit, uid := d.sit, d.sit.fed.UID
	key := record.FederationKey(uid)
	keys := []string{key, record.FenceKey}
	for _, p := range d.added {
		keys = append(keys, record.DesiredServiceKey(p.cluster, p.service))
	}
	votes := len(d.added) > 0 && d.next.Deployment != oscar.DeploymentBestEffort
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, RequestID: d.next.RequestID, Marker: record.HistoryKey(uid, d.next.Generation),
		Build: func(v store.View, tx *store.Txn) error {
			if kv, ok := v.KV(key); !ok || kv.ModRevision != d.rev {
				return errStale
			}
			tx.Expect(key)
			if len(d.added) > 0 {
				if kv, _ := v.KV(record.FenceKey); kv.ModRevision != d.fence {
					return errFence
				}
				tx.Expect(record.FenceKey)
			}
			for _, p := range d.added {
				if err := placeFree(v, p); err != nil {
					return err
				}
				tx.ExpectAbsent(record.DesiredServiceKey(p.cluster, p.service))
			}
			if votes {
				next := sit.fed
				next.Refused = nil
				next.Change = &record.Change{
					RequestID: d.next.RequestID, Topology: d.next.Topology, Delegation: d.next.Delegation, Drift: d.next.Drift,
					Visibility: d.next.Visibility, AllowedUsers: d.next.AllowedUsers, Prefetch: d.next.Prefetch,
					Members: d.next.Members, Specs: d.specs, ProposedAt: record.At(d.sit.now), Deadline: *d.added[0].rec.Deadline,
				}
				tx.Put(key, next)
			} else if err := applyChange(sit, newProposal(d.next, d.specs)).write(sit.fed, v, tx); err != nil {
				return err
			}
			for _, p := range d.added {
				tx.Put(record.DesiredServiceKey(p.cluster, p.service), p.rec)
			}
			for _, s := range d.submitted {
				tx.Put(s.key, s.rec)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	return c.shows(ctx, res.Revision)
}

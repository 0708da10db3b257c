package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// tryChange writes one attempt: the whole change when nobody has to vote, else
// the prepare records of the members that it adds.
func (c *ControlPlane) tryChange(ctx context.Context, id change, p place, fn edit) (attempt, error) {
	d, err := c.draftChange(ctx, id, p, fn)
	if err != nil {
		if d != nil {
			err = id.submitted.paths(err, d.service)
		}
		return attempt{}, err
	}
	if err := asPlanned(id.plan, func() string { return c.digestOfChange(id.caller, d) }); err != nil {
		return attempt{}, err
	}
	if err := c.mayKeep(id.claim); err != nil {
		return attempt{}, err
	}
	if d.differs && !id.removes || id.token.token != "" {
		release, err := c.room(id.caller, d.sit.fed.Owner, d.bytes())
		if err != nil {
			return attempt{}, err
		}
		defer release()
	}
	if err := c.deliver(ctx, id.caller, d); err != nil {
		return attempt{}, err
	}
	if !d.differs {
		return attempt{generation: d.next.Generation}, c.commitOrders(ctx, id, d.sit, d.rev)
	}
	d.data, d.jobs = id.data, id.jobs
	if err := c.stage(ctx, d.before); err != nil {
		return attempt{}, err
	}
	c.fail("after_change_specs")
	votes, err := c.commitChange(ctx, id, d)
	return attempt{generation: d.next.Generation, votes: votes}, err
}

// deliver sends the token of an owner to the clusters that a change of his concerns:
// all of them, or when it changes nothing those that have something to make. It needs
// no transaction with the change: he may always give it.
func (c *ControlPlane) deliver(ctx context.Context, caller identity.Caller, d *changeDraft) error {
	b := bears(caller, d.sit.fed.Owner)
	if len(d.added) > 0 {
		if err := b.lasts(d.sit.now, c.cfg.PrepareDeadline+tokenMargin); err != nil {
			return err
		}
	}
	to := wanting(d.sit)
	if d.differs {
		to = clustersOf(d.next.Members)
	}
	if !b.useful(d.sit.now) || len(to) == 0 {
		return nil
	}
	access, err := c.sealAccess(b, &d.next, to)
	if err != nil {
		return err
	}
	return c.stage(ctx, access)
}

// holdsRefreshToken refuses to let a user's federation delegate jobs without a refresh
// token: neither came with the change, nor is one held.
func (c *ControlPlane) holdsRefreshToken(ctx context.Context, id change, f *record.Federation) error {
	if id.caller.Administrator || id.token.token != "" {
		return nil
	}
	kv, err := c.store.Get(ctx, record.HoldKey(f.Coordinator().ClusterID, f.UID))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err == nil {
		if h, err := store.Decode[record.Hold](kv); err == nil && h.Order == record.HoldKeep {
			return nil
		}
	}
	return &Error{Code: CodeInvalid, Message: "1 violations", Violations: []oscar.Violation{refreshTokenRequired()}}
}

// draftChange makes everything that a change by somebody writes. It writes nothing. What asks
// for the same as there is, after defaults and kept secrets, does not differ. With
// an error about the edited definition comes a draft that has it.
func (c *ControlPlane) draftChange(ctx context.Context, id change, p place, fn edit) (*changeDraft, error) {
	resolve := id.resolve
	old, err := c.withSecrets(ctx, p.rec)
	if errors.Is(err, store.ErrNotFound) {
		return nil, c.withoutDefinition(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	s, err := fn(old)
	if err != nil {
		return nil, err
	}
	// The transaction will compare the revision of this situation. It must be the one
	// that was found changeable, and that If-Match was held against.
	sit, rev, ok := c.decider.situation(p.uid)
	if !ok || rev != p.rev {
		return nil, errStale
	}
	if err := sit.understood(); err != nil {
		return nil, err
	}
	d := &changeDraft{sit: sit, rev: rev, old: old, service: s, resolve: resolve,
		differs: resolve != nil || !sameDefinition(s, old, p.rec), specs: map[string]string{}}
	if !d.differs {
		d.next, d.service = sit.fed, old
		return d, nil
	}
	if !topology.SameVolume(s, old) {
		return d, &Error{Code: CodeInvalid, Message: "volume updates are not supported after service creation: " +
			"send the volume as it was submitted, or delete the service and create it again; its volume stays, and is used again under its name"}
	}
	g, fence, err := c.validateChange(id.caller, s.Clone(), p.rec) // it is kept as it was submitted
	if err == nil && !delegates(old) && delegates(s) {
		err = c.holdsRefreshToken(ctx, id, p.rec)
	}
	if err != nil {
		return d, err
	}
	d.fence = fence
	d.next = nextGeneration(sit, s, g, id.claim.requestID, resolve)
	d.next.By = id.caller.Subject
	r := c.renderer(s, g, d.next)
	attempt := newUID() // what another attempt of this request has written stays as it is
	r.name = func(service, uid string) string {
		return record.ChangedSpecName(service, uid, d.next.Generation, attempt)
	}
	if err := r.neverConnected(d.next); err != nil {
		return d, err
	}
	desired, err := c.renderChange(r, d)
	if err != nil || id.removes || id.resolve != nil {
		return d, err // what takes away is never refused for its size
	}
	if err := hasRoomFor(&sit.fed, d.next.Members); err != nil {
		return d, err
	}
	return d, c.largestOf(d.next, desired, d.submitted).changes()
}

// withoutDefinition says why the definition of a federation is not there: a newer
// generation has taken its place, or it is lost.
func (c *ControlPlane) withoutDefinition(ctx context.Context, p place) error {
	if err := c.fresh(ctx); err != nil {
		return err
	}
	if _, rev, ok := c.decider.situation(p.uid); !ok || rev != p.rev {
		return errStale
	}
	return &Error{Code: CodeFailedPrecondition, Message: fmt.Sprintf(
		"the definition of federation %q is not in the store any more, so it cannot be changed; delete it, which keeps its buckets, and create it again", p.rec.GroupID)}
}

// sameDefinition says whether two definitions of a federation, with their secrets, ask for
// the same. Completing one hides the keys of minio.default.
func sameDefinition(a, b *oscar.Service, f *record.Federation) bool {
	home := f.Coordinator().ClusterID
	return oscar.SameDefaultMinIOKeys(a, b) && oscar.Equal(topology.Complete(a, home, f.GroupID), topology.Complete(b, home, f.GroupID))
}

// nextGeneration is the federation as it will be; members that stay keep their life.
func nextGeneration(sit situation, s *oscar.Service, g *topology.Graph, requestID string, resolve *resolution) record.Federation {
	f := sit.fed
	next := f
	next.Epoch = sit.epoch
	next.Generation++
	lives := map[string]string{}
	if resolve != nil {
		next.Generation = max(next.Generation, resolve.generation)
		if resolve.back != nil {
			lives[resolve.back.ClusterID+"/"+resolve.back.ServiceName] = resolve.uid
		}
	}
	next.RequestID, next.Topology, next.Delegation, next.Drift = requestID, g.Topology, g.Delegation, g.Drift
	next.ReschedulerThreshold, next.Visibility, next.AllowedUsers, next.Prefetch = g.ReschedulerThreshold, s.Visibility, allowedUsers(s), s.ImagePrefetch
	next.ChangedAt = record.At(sit.now)
	next.Members = nil
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
	// fence is the revision that the clusters were validated at; nothing was staged before.
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
	// data and jobs are the owner's orders for the members that go.
	data, jobs string
	resolve    *resolution
}

// bytes is about how many it writes.
func (d *changeDraft) bytes() int64 {
	desired := slices.Clone(d.added)
	for _, r := range d.sit.replicas {
		if r.desired != nil {
			desired = append(desired, r.place(r.desired))
		}
	}
	return bytesThrough(d.next, desired, slices.Concat(d.before, d.submitted)...)
}

// renderChange renders the next generation into the draft, and returns what is desired then.
func (c *ControlPlane) renderChange(r *renderer, d *changeDraft) (all []placed, err error) {
	until := record.At(d.sit.now.Add(c.cfg.PrepareDeadline))
	made, err := r.replicas(d.next.Members)
	if err != nil {
		return nil, err
	}
	for _, one := range made {
		desired := one.desired
		all = append(all, desired)
		d.before = append(d.before, one.spec)
		d.rendered = append(d.rendered, one.what)
		if memberOf(d.sit.fed.Members, desired.rec.UID) >= 0 {
			d.specs[desired.rec.UID] = desired.rec.Spec
			continue
		}
		if d.resolve != nil && d.resolve.back != nil && desired.rec.UID == d.resolve.uid {
			// It was voted for, and applied, in the history that was lost.
			desired.rec.Intent, desired.rec.Deadline = record.IntentApply, nil
			d.resolve.apply(desired.rec)
			d.added = append(d.added, desired)
			continue
		}
		desired.rec.Deadline = &until
		if d.next.Deployment == oscar.DeploymentBestEffort {
			desired.rec.Deadline = nil
		}
		d.added = append(d.added, desired)
	}
	d.submitted, err = r.submitted()
	return all, err
}

// commitChange is the transaction of an attempt, and says whether votes are waited
// for: members that are added to a transactional federation vote first; to one of
// best effort they come when they can.
func (c *ControlPlane) commitChange(ctx context.Context, id change, d *changeDraft) (votes bool, err error) {
	sit, uid := d.sit, d.sit.fed.UID
	key := record.FederationKey(uid)
	keys := append(append(id.claim.keys(), key, record.FenceKey, record.MetaKey), id.holdKeys(&sit.fed)...)
	for _, p := range d.added {
		keys = append(keys, record.DesiredServiceKey(p.cluster, p.service))
	}
	votes = len(d.added) > 0 && d.next.Deployment != oscar.DeploymentBestEffort && d.resolve == nil
	at := record.At(sit.now)
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, RequestID: d.next.RequestID, Marker: record.HistoryKey(uid, d.next.Generation),
		Build: func(v store.View, tx *store.Txn) error {
			if err := c.free(id.claim, v); err != nil {
				return err
			}
			if kv, ok := v.KV(key); !ok || kv.ModRevision != d.rev {
				return errStale
			}
			tx.Expect(key)
			if err := sameEpoch(v, tx, d.next.Epoch); err != nil {
				return err
			}
			if kv, _ := v.KV(record.FenceKey); kv.ModRevision != d.fence {
				return errFence
			}
			tx.Expect(record.FenceKey)
			for _, p := range d.added {
				if err := c.placeFree(v, p); err != nil {
					return err
				}
				tx.ExpectAbsent(record.DesiredServiceKey(p.cluster, p.service))
			}
			if votes {
				next := sit.fed
				next.Refused = nil
				next.Change = &record.Change{
					RequestID: d.next.RequestID, By: d.next.By, Topology: d.next.Topology, Delegation: d.next.Delegation, Drift: d.next.Drift,
					ReschedulerThreshold: d.next.ReschedulerThreshold,
					Visibility:           d.next.Visibility, AllowedUsers: d.next.AllowedUsers, Prefetch: d.next.Prefetch,
					Members: d.next.Members, Specs: d.specs, ProposedAt: at, Deadline: *d.added[0].rec.Deadline, Request: id.claim.hash,
					Epoch: d.next.Epoch,
				}
				tx.Put(key, next)
				id.claim.write(tx, uid, at, nil)
				note(tx, sit.now, entryOf(d.next, record.ActionChange, record.OutcomeAccepted))
			} else {
				p := newProposal(d.next, d.specs)
				p.data, p.jobs = d.data, d.jobs
				change := applyChange(sit, p)
				for _, put := range change.put {
					d.resolve.apply(put.rec)
				}
				change.put = append(change.put, hurried(sit, id)...)
				if d.resolve != nil {
					change.name = "resolve"
				}
				if err := change.write(sit, v, tx); err != nil {
					return err
				}
				id.claim.write(tx, uid, at, answerOf(change))
			}
			for _, p := range d.added {
				tx.Put(record.DesiredServiceKey(p.cluster, p.service), p.rec)
			}
			for _, s := range d.submitted {
				tx.Put(s.key, s.rec)
			}
			return c.keepAlong(v, tx, id, &sit.fed)
		},
	})
	if err != nil {
		return votes, err
	}
	return votes, c.shows(ctx, res.Revision)
}

// commitOrders is the transaction of a change that changes no definition: new
// orders for members that leave already, a refresh token, and the record of the
// request. Without any of them nothing is written.
func (c *ControlPlane) commitOrders(ctx context.Context, id change, sit situation, rev int64) error {
	d := decision{name: "hurry", fed: &sit.fed, put: hurried(sit, id)}
	if len(d.put) > 0 {
		next := sit.fed
		next.RequestID, next.By, next.ChangedAt = id.claim.requestID, id.caller.Subject, record.At(sit.now)
		d.fed = &next
	}
	key := record.FederationKey(sit.fed.UID)
	res, err := c.store.Update(ctx, store.Update{
		Keys: append(append(id.claim.keys(), key), id.holdKeys(&sit.fed)...),
		Build: func(v store.View, tx *store.Txn) error {
			if err := c.free(id.claim, v); err != nil {
				return err
			}
			if kv, ok := v.KV(key); !ok || kv.ModRevision != rev {
				return errStale
			}
			tx.Expect(key)
			id.claim.write(tx, sit.fed.UID, record.At(sit.now), answerOf(d))
			if err := c.keepAlong(v, tx, id, &sit.fed); err != nil || len(d.put) == 0 {
				return err
			}
			return d.write(sit, v, tx)
		},
	})
	if err != nil {
		return err
	}
	return c.shows(ctx, res.Revision)
}

// hurried are the tombstones of members that leave already, with the orders of a
// request that names them once more.
func hurried(s situation, id change) []placed {
	if id.hurries == nil || id.data == "" && id.jobs == "" {
		return nil
	}
	var out []placed
	for _, r := range s.leaving {
		if r.desired == nil || r.acknowledged() || !id.hurries(r.at) {
			continue
		}
		t := *r.desired
		t.Data, t.Jobs = cmp.Or(id.data, t.Data), cmp.Or(id.jobs, t.Jobs)
		if t.Data == r.desired.Data && t.Jobs == r.desired.Jobs {
			continue
		}
		t.RequestID = id.claim.requestID
		out = append(out, r.place(&t))
	}
	return out
}

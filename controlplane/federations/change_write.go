package federations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// tryChange writes one attempt: the whole change when nobody has to vote, else
// the prepare records of the members that it adds.
func (c *Controller) tryChange(ctx context.Context, id Change, p view.MemberRef, fn Edit) (attempt, error) {
	d, err := c.DraftChange(ctx, id, p, fn)
	if err != nil {
		if d != nil {
			err = id.submitted.paths(err, d.Service)
		}
		return attempt{}, err
	}
	if err := asPlanned(id.plan, func() string { return c.DigestOfChange(id.Caller, d) }); err != nil {
		return attempt{}, err
	}
	if err := c.requests.MayKeep(id.Claim); err != nil {
		return attempt{}, err
	}
	if d.Differs && !id.removes || id.Token.Token != "" {
		release, err := c.requests.Reserve(id.Caller, d.Sit.Fed.Owner, d.bytes())
		if err != nil {
			return attempt{}, err
		}
		defer release()
	}
	if err := c.deliver(ctx, id.Caller, d); err != nil {
		return attempt{}, err
	}
	if !d.Differs {
		return attempt{generation: d.Next.Generation}, c.commitOrders(ctx, id, d.Sit, d.Rev)
	}
	d.data, d.jobs = id.data, id.jobs
	if err := c.Stage(ctx, d.before); err != nil {
		return attempt{}, err
	}
	c.gate.Fail("after_change_specs")
	votes, err := c.commitChange(ctx, id, d)
	return attempt{generation: d.Next.Generation, votes: votes}, err
}

// deliver sends the token of an owner to the clusters that a change of his concerns:
// all of them, or when it changes nothing those that have something to make. It needs
// no transaction with the change: he may always give it.
func (c *Controller) deliver(ctx context.Context, caller identity.Caller, d *ChangeDraft) error {
	b := tokens.AccessTokenOf(caller, d.Sit.Fed.Owner)
	if len(d.Added) > 0 {
		if err := b.CheckLife(d.Sit.Now, c.limits.PrepareDeadline+tokens.TokenMargin); err != nil {
			return err
		}
	}
	to := tokens.ClustersWanting(d.Sit)
	if d.Differs {
		to = tokens.ClustersOf(d.Next.Members)
	}
	if !b.Usable(d.Sit.Now) || len(to) == 0 {
		return nil
	}
	access, err := c.tokens.SealAccess(b, &d.Next, to)
	if err != nil {
		return err
	}
	return c.Stage(ctx, access)
}

// holdsRefreshToken refuses to let a user's federation delegate jobs without a refresh
// token: neither came with the change, nor is one held.
func (c *Controller) holdsRefreshToken(ctx context.Context, id Change, f *record.Federation) error {
	if id.Caller.Administrator || id.Token.Token != "" {
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
	return &fault.Error{Code: fault.CodeInvalid, Message: "1 violations", Violations: []oscar.Violation{refreshTokenRequired()}}
}

// DraftChange makes everything that a change by somebody writes. It writes nothing. What asks
// for the same as there is, after defaults and kept secrets, does not differ. With
// an error about the edited definition comes a draft that has it.
func (c *Controller) DraftChange(ctx context.Context, id Change, p view.MemberRef, fn Edit) (*ChangeDraft, error) {
	resolve := id.Resolve
	old, err := c.WithSecrets(ctx, p.Rec)
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
	sit, rev, ok := c.situation(p.UID)
	if !ok || rev != p.Rev {
		return nil, gate.ErrStale
	}
	if err := sit.Understood(); err != nil {
		return nil, err
	}
	d := &ChangeDraft{Sit: sit, Rev: rev, Old: old, Service: s, resolve: resolve,
		Differs: resolve != nil || !sameDefinition(s, old, p.Rec), specs: map[string]string{}}
	if !d.Differs {
		d.Next, d.Service = sit.Fed, old
		return d, nil
	}
	if !topology.SameVolume(s, old) {
		return d, &fault.Error{Code: fault.CodeInvalid, Message: "volume updates are not supported after service creation: " +
			"send the volume as it was submitted, or delete the service and create it again; its volume stays, and is used again under its name"}
	}
	g, fence, err := c.validateChange(id.Caller, s.Clone(), p.Rec) // it is kept as it was submitted
	if err == nil && !delegates(old) && delegates(s) {
		err = c.holdsRefreshToken(ctx, id, p.Rec)
	}
	if err != nil {
		return d, err
	}
	d.Fence = fence
	d.Next = nextGeneration(sit, s, g, id.Claim.RequestID, resolve)
	d.Next.By = id.Caller.Subject
	r := c.Renderer(s, g, d.Next)
	attempt := record.NewUID() // what another attempt of this request has written stays as it is
	r.Name = func(service, uid string) string {
		return record.ChangedSpecName(service, uid, d.Next.Generation, attempt)
	}
	if err := r.neverConnected(d.Next); err != nil {
		return d, err
	}
	desired, err := c.renderChange(r, d)
	if err != nil || id.removes || id.Resolve != nil {
		return d, err // what takes away is never refused for its size
	}
	if err := checkMembersFit(&sit.Fed, d.Next.Members); err != nil {
		return d, err
	}
	return d, c.largestOf(d.Next, desired, d.submitted).changes()
}

// withoutDefinition says why the definition of a federation is not there: a newer
// generation has taken its place, or it is lost.
func (c *Controller) withoutDefinition(ctx context.Context, p view.MemberRef) error {
	if err := c.gate.Fresh(ctx); err != nil {
		return err
	}
	if _, rev, ok := c.situation(p.UID); !ok || rev != p.Rev {
		return gate.ErrStale
	}
	return &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf(
		"the definition of federation %q is not in the store any more, so it cannot be changed; delete it, which keeps its buckets, and create it again", p.Rec.GroupID)}
}

// sameDefinition says whether two definitions of a federation, with their secrets, ask for
// the same. Completing one hides the keys of minio.default.
func sameDefinition(a, b *oscar.Service, f *record.Federation) bool {
	home := f.Coordinator().ClusterID
	return oscar.SameDefaultMinIOKeys(a, b) && oscar.Equal(topology.Complete(a, home, f.GroupID), topology.Complete(b, home, f.GroupID))
}

// nextGeneration is the federation as it will be; members that stay keep their life.
func nextGeneration(sit view.Situation, s *oscar.Service, g *topology.Graph, requestID string, resolve *Resolution) record.Federation {
	f := sit.Fed
	next := f
	next.Epoch = sit.Epoch
	next.Generation++
	lives := map[string]string{}
	if resolve != nil {
		next.Generation = max(next.Generation, resolve.Generation)
		if resolve.Back != nil {
			lives[resolve.Back.ClusterID+"/"+resolve.Back.ServiceName] = resolve.UID
		}
	}
	next.RequestID, next.Topology, next.Delegation, next.Drift = requestID, g.Topology, g.Delegation, g.Drift
	next.ReschedulerThreshold, next.Visibility, next.AllowedUsers, next.Prefetch = g.ReschedulerThreshold, s.Visibility, allowedUsers(s), s.ImagePrefetch
	next.ChangedAt = record.At(sit.Now)
	next.Members = nil
	for _, m := range f.Members {
		lives[m.ClusterID+"/"+m.ServiceName] = m.UID
	}
	for _, n := range g.Nodes {
		m := Member(n)
		if n.Replica() {
			m.UID = lives[m.ClusterID+"/"+m.ServiceName]
			if m.UID == "" {
				m.UID = record.NewUID()
			}
		}
		next.Members = append(next.Members, m)
	}
	return next
}

// ChangeDraft is an attempt made ready.
type ChangeDraft struct {
	// sit is what it was decided on, and rev the revision of the federation then.
	Sit view.Situation
	Rev int64
	// fence is the revision that the clusters were validated at; nothing was staged before.
	Fence int64
	// old and service are the definitions before and after, with their secrets.
	Old, Service *oscar.Service
	// differs is false when nothing is to be written.
	Differs   bool
	Next      record.Federation
	specs     map[string]string
	Added     []gate.Placed
	Rendered  []Rendered
	before    []gate.Staged
	submitted []gate.Staged
	// data and jobs are the owner's orders for the members that go.
	data, jobs string
	resolve    *Resolution
}

// bytes is about how many it writes.
func (d *ChangeDraft) bytes() int64 {
	desired := slices.Clone(d.Added)
	for _, r := range d.Sit.Replicas {
		if r.Desired != nil {
			desired = append(desired, decide.PlacedAt(r, r.Desired))
		}
	}
	return gate.BytesThrough(d.Next, desired, slices.Concat(d.before, d.submitted)...)
}

// renderChange renders the next generation into the draft, and returns what is desired then.
func (c *Controller) renderChange(r *Renderer, d *ChangeDraft) (all []gate.Placed, err error) {
	until := record.At(d.Sit.Now.Add(c.limits.PrepareDeadline))
	made, err := r.Replicas(d.Next.Members)
	if err != nil {
		return nil, err
	}
	for _, one := range made {
		desired := one.Desired
		all = append(all, desired)
		d.before = append(d.before, one.Spec)
		d.Rendered = append(d.Rendered, one.what)
		if view.MemberOf(d.Sit.Fed.Members, desired.Rec.UID) >= 0 {
			d.specs[desired.Rec.UID] = desired.Rec.Spec
			continue
		}
		if d.resolve != nil && d.resolve.Back != nil && desired.Rec.UID == d.resolve.UID {
			// It was voted for, and applied, in the history that was lost.
			desired.Rec.Intent, desired.Rec.Deadline = record.IntentApply, nil
			d.resolve.apply(desired.Rec)
			d.Added = append(d.Added, desired)
			continue
		}
		desired.Rec.Deadline = &until
		if d.Next.Deployment == oscar.DeploymentBestEffort {
			desired.Rec.Deadline = nil
		}
		d.Added = append(d.Added, desired)
	}
	d.submitted, err = r.Submitted()
	return all, err
}

// commitChange is the transaction of an attempt, and says whether votes are waited
// for: members that are added to a transactional federation vote first; to one of
// best effort they come when they can.
func (c *Controller) commitChange(ctx context.Context, id Change, d *ChangeDraft) (votes bool, err error) {
	sit, uid := d.Sit, d.Sit.Fed.UID
	key := record.FederationKey(uid)
	keys := append(append(id.Claim.Keys(), key, record.FenceKey, record.MetaKey), id.holdKeys(&sit.Fed)...)
	for _, p := range d.Added {
		keys = append(keys, record.DesiredServiceKey(p.Cluster, p.Service))
	}
	votes = len(d.Added) > 0 && d.Next.Deployment != oscar.DeploymentBestEffort && d.resolve == nil
	at := record.At(sit.Now)
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, RequestID: d.Next.RequestID, Marker: record.HistoryKey(uid, d.Next.Generation),
		Build: func(v store.View, tx *store.Txn) error {
			if err := c.requests.Free(id.Claim, v); err != nil {
				return err
			}
			if kv, ok := v.KV(key); !ok || kv.ModRevision != d.Rev {
				return gate.ErrStale
			}
			tx.Expect(key)
			if err := gate.SameEpoch(v, tx, d.Next.Epoch); err != nil {
				return err
			}
			if kv, _ := v.KV(record.FenceKey); kv.ModRevision != d.Fence {
				return gate.ErrFence
			}
			tx.Expect(record.FenceKey)
			for _, p := range d.Added {
				if err := c.LocationFree(v, p); err != nil {
					return err
				}
				tx.ExpectAbsent(record.DesiredServiceKey(p.Cluster, p.Service))
			}
			if votes {
				next := sit.Fed
				next.Refused = nil
				next.Change = &record.Change{
					RequestID: d.Next.RequestID, By: d.Next.By, Topology: d.Next.Topology, Delegation: d.Next.Delegation, Drift: d.Next.Drift,
					ReschedulerThreshold: d.Next.ReschedulerThreshold,
					Visibility:           d.Next.Visibility, AllowedUsers: d.Next.AllowedUsers, Prefetch: d.Next.Prefetch,
					Members: d.Next.Members, Specs: d.specs, ProposedAt: at, Deadline: *d.Added[0].Rec.Deadline, Request: id.Claim.Hash,
					Epoch: d.Next.Epoch,
				}
				tx.Put(key, next)
				id.Claim.Write(tx, uid, at, nil)
				request.Note(tx, sit.Now, request.EntryOf(d.Next, record.ActionChange, record.OutcomeAccepted))
			} else {
				p := decide.NewProposal(d.Next, d.specs)
				p.Data, p.Jobs = d.data, d.jobs
				change := decide.ApplyChange(sit, p)
				for _, put := range change.Put {
					d.resolve.apply(put.Rec)
				}
				change.Put = append(change.Put, amended(sit, id)...)
				if d.resolve != nil {
					change.Name = "resolve"
				}
				if err := putDecision(change, sit, v, tx); err != nil {
					return err
				}
				id.Claim.Write(tx, uid, at, request.AnswerOf(change))
			}
			for _, p := range d.Added {
				tx.Put(record.DesiredServiceKey(p.Cluster, p.Service), p.Rec)
			}
			for _, s := range d.submitted {
				tx.Put(s.Key, s.Rec)
			}
			return c.keepAlong(v, tx, id, &sit.Fed)
		},
	})
	if err != nil {
		return votes, err
	}
	return votes, c.gate.Shows(ctx, res.Revision)
}

// commitOrders is the transaction of a change that changes no definition: new
// orders for members that leave already, a refresh token, and the record of the
// request. Without any of them nothing is written.
func (c *Controller) commitOrders(ctx context.Context, id Change, sit view.Situation, rev int64) error {
	d := decide.Decision{Name: "hurry", Fed: &sit.Fed, Put: amended(sit, id)}
	if len(d.Put) > 0 {
		next := sit.Fed
		next.RequestID, next.By, next.ChangedAt = id.Claim.RequestID, id.Caller.Subject, record.At(sit.Now)
		d.Fed = &next
	}
	key := record.FederationKey(sit.Fed.UID)
	res, err := c.store.Update(ctx, store.Update{
		Keys: append(append(id.Claim.Keys(), key), id.holdKeys(&sit.Fed)...),
		Build: func(v store.View, tx *store.Txn) error {
			if err := c.requests.Free(id.Claim, v); err != nil {
				return err
			}
			if kv, ok := v.KV(key); !ok || kv.ModRevision != rev {
				return gate.ErrStale
			}
			tx.Expect(key)
			id.Claim.Write(tx, sit.Fed.UID, record.At(sit.Now), request.AnswerOf(d))
			if err := c.keepAlong(v, tx, id, &sit.Fed); err != nil || len(d.Put) == 0 {
				return err
			}
			return putDecision(d, sit, v, tx)
		},
	})
	if err != nil {
		return err
	}
	return c.gate.Shows(ctx, res.Revision)
}

// amended are the tombstones of members that leave already, with the orders of a
// request that names them once more.
func amended(s view.Situation, id Change) []gate.Placed {
	if id.hurries == nil || id.data == "" && id.jobs == "" {
		return nil
	}
	var out []gate.Placed
	for _, r := range s.Leaving {
		if r.Desired == nil || r.Acknowledged() || !id.hurries(r.At) {
			continue
		}
		t := *r.Desired
		t.Data, t.Jobs = cmp.Or(id.data, t.Data), cmp.Or(id.jobs, t.Jobs)
		if t.Data == r.Desired.Data && t.Jobs == r.Desired.Jobs {
			continue
		}
		t.RequestID = id.Claim.RequestID
		out = append(out, decide.PlacedAt(r, &t))
	}
	return out
}

package federations

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// tryChange writes one attempt: the whole change when no member has to vote, otherwise the
// prepare records of the members that it adds.
func (c *Controller) tryChange(ctx context.Context, ch Change, p view.MemberRef, fn Edit) (attempt, error) {
	d, err := c.DraftChange(ctx, ch, p, fn)
	if err != nil {
		if d != nil {
			err = ch.paths.rewrite(err, d.Service)
		}
		return attempt{}, err
	}
	if err := asPlanned(ch.plan, func() string { return c.DigestOfChange(ch.Caller, d) }); err != nil {
		return attempt{}, err
	}
	if err := c.requests.MayKeep(ch.Claim); err != nil {
		return attempt{}, err
	}
	if d.Differs && !ch.removal.only || ch.Token.Token != "" {
		release, err := c.requests.Reserve(ch.Caller, d.Sit.Fed.Owner, d.bytes())
		if err != nil {
			return attempt{}, err
		}
		defer release()
	}
	if err := c.deliver(ctx, d); err != nil {
		return attempt{}, err
	}
	if !d.Differs {
		return attempt{generation: d.Next.Generation}, c.commitOrders(ctx, d)
	}
	if err := c.Stage(ctx, d.before); err != nil {
		return attempt{}, err
	}
	c.gate.Fail("after_change_specs")
	votes, err := c.commitChange(ctx, d)
	return attempt{generation: d.Next.Generation, votes: votes}, err
}

// deliver sends the owner's access token to the clusters that his change concerns: all of them
// or, when it changes nothing, those that have something to make or to end. It needs no transaction with the change: the
// owner may always give it.
func (c *Controller) deliver(ctx context.Context, d *ChangeDraft) error {
	b := tokens.AccessTokenOf(d.ch.Caller, d.Sit.Fed.Owner)
	if len(d.Added) > 0 {
		if err := b.CheckLife(d.Sit.Now, c.limits.PrepareDeadline+tokens.Margin); err != nil {
			return err
		}
	}
	to := tokens.ClustersWanting(d.Sit)
	if d.Differs {
		to = tokens.ClustersOf(slices.Concat(d.Sit.Fed.Members, d.Next.Members))
	}
	return c.stageAccess(ctx, b, &d.Next, d.Sit.Now, append(to, tokens.ClustersEnding(amended(d))...))
}

// stageAccess sends an access token that is still good to clusters of a federation.
func (c *Controller) stageAccess(ctx context.Context, b *tokens.AccessToken, f *record.Federation, now time.Time, to []string) error {
	if !b.Usable(now) || len(to) == 0 {
		return nil
	}
	access, err := c.tokens.SealAccess(b, f, to)
	if err != nil {
		return err
	}
	return c.Stage(ctx, access)
}

// holdsRefreshToken refuses a user's federation that delegates jobs without a refresh token:
// none came with the change, and none is held.
func (c *Controller) holdsRefreshToken(ctx context.Context, ch Change, f *record.Federation) error {
	if ch.Caller.Administrator || ch.Token.Token != "" {
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
	return fault.Invalid(refreshTokenRequired())
}

// commitChange is the transaction of an attempt. It returns whether votes are awaited: members
// that are added to a transactional federation vote first; in a best-effort one they come when
// they can.
func (c *Controller) commitChange(ctx context.Context, d *ChangeDraft) (votes bool, err error) {
	ch, sit, uid := d.ch, d.Sit, d.Sit.Fed.UID
	key := record.FederationKey(uid)
	keys := append(append(ch.Claim.Keys(), key, record.FenceKey, record.MetaKey), ch.holdKeys(&sit.Fed)...)
	for _, p := range d.Added {
		keys = append(keys, record.DesiredServiceKey(p.Cluster, p.Service))
	}
	for _, a := range d.adopted {
		keys = append(keys, record.FederationKey(a.sit.Fed.UID))
	}
	votes = len(d.Added) > 0 && d.Next.Deployment != oscar.DeploymentBestEffort && ch.Resolve == nil
	at := record.At(sit.Now)
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, RequestID: d.Next.RequestID, Marker: record.HistoryKey(uid, d.Next.Generation),
		Build: func(v store.View, tx *store.Txn) error {
			if err := c.requests.Free(ch.Claim, v); err != nil {
				return err
			}
			if err := c.expectDrafted(v, tx, d); err != nil {
				return err
			}
			if votes {
				tx.Put(key, proposed(d))
				ch.Claim.Write(tx, uid, at, nil)
				request.Note(tx, sit.Now, request.EntryOf(d.Next, record.ActionChange, record.OutcomeAccepted))
			} else {
				change := wholeChange(d)
				if err := putDecision(change, sit, tx); err != nil {
					return err
				}
				if err := d.putAdoptions(tx); err != nil {
					return err
				}
				ch.Claim.Write(tx, uid, at, request.AnswerOf(change))
			}
			for _, p := range d.Added {
				tx.Put(record.DesiredServiceKey(p.Cluster, p.Service), p.Rec)
			}
			for _, s := range d.definition {
				tx.Put(s.Key, s.Rec)
			}
			return c.keepAlong(v, tx, ch, &sit.Fed)
		},
	})
	if err != nil {
		return votes, err
	}
	return votes, c.gate.Shows(ctx, res.Revision)
}

// expectDrafted compares what a draft was made from: the federation, the epoch, the set of
// clusters, and that the locations of the members that it adds are free.
func (c *Controller) expectDrafted(v store.View, tx *store.Txn, d *ChangeDraft) error {
	key := record.FederationKey(d.Sit.Fed.UID)
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
	if err := d.expectAdoptable(v, tx); err != nil {
		return err
	}
	for _, p := range d.Added {
		if err := c.LocationFree(v, p); err != nil {
			return err
		}
		tx.ExpectAbsent(record.DesiredServiceKey(p.Cluster, p.Service))
	}
	return nil
}

// proposed is the federation with the change that its new members vote on.
func proposed(d *ChangeDraft) record.Federation {
	next := d.Sit.Fed
	next.Refused = nil
	next.Change = &record.Change{
		RequestID: d.Next.RequestID, By: d.Next.By, Topology: d.Next.Topology, Delegation: d.Next.Delegation, Drift: d.Next.Drift,
		ReschedulerThreshold: d.Next.ReschedulerThreshold,
		Visibility:           d.Next.Visibility, AllowedUsers: d.Next.AllowedUsers, Prefetch: d.Next.Prefetch,
		Unexposed: !d.Service.Exposed(), Members: d.Next.Members, Specs: d.specs, ProposedAt: record.At(d.Sit.Now), Deadline: *d.Added[0].Rec.Deadline, Request: d.ch.Claim.Hash,
		Epoch: d.Next.Epoch, Parts: d.Next.Parts,
	}
	return next
}

// wholeChange is a change that needs no votes, with the orders of its request.
func wholeChange(d *ChangeDraft) decide.Decision {
	p := decide.NewProposal(d.Next, d.specs)
	p.Data, p.Jobs = d.ch.removal.data, d.ch.removal.jobs
	for _, a := range d.adopted {
		p.Adopted = append(p.Adopted, &a.sit.Fed)
	}
	change := decide.ApplyChange(d.Sit, p)
	for _, put := range change.Put {
		d.ch.Resolve.apply(put.Rec)
	}
	change.Put = append(append(change.Put, amended(d)...), d.putAdopted()...)
	if d.ch.Resolve != nil {
		change.Step = decide.StepResolve
	}
	return change
}

// commitOrders is the transaction of a change that changes no definition: new
// orders for members that leave already, a refresh token, and the record of the
// request. Without any of them nothing is written.
func (c *Controller) commitOrders(ctx context.Context, draft *ChangeDraft) error {
	ch, sit := draft.ch, draft.Sit
	d := decide.Decision{Step: decide.StepHurry, Fed: &sit.Fed, Put: amended(draft)}
	if len(d.Put) > 0 {
		next := sit.Fed
		next.RequestID, next.By, next.ChangedAt = ch.Claim.RequestID, ch.Caller.Subject, record.At(sit.Now)
		d.Fed = &next
	}
	key := record.FederationKey(sit.Fed.UID)
	res, err := c.store.Update(ctx, store.Update{
		Keys: append(append(ch.Claim.Keys(), key), ch.holdKeys(&sit.Fed)...),
		Build: func(v store.View, tx *store.Txn) error {
			if err := c.requests.Free(ch.Claim, v); err != nil {
				return err
			}
			if kv, ok := v.KV(key); !ok || kv.ModRevision != draft.Rev {
				return gate.ErrStale
			}
			tx.Expect(key)
			ch.Claim.Write(tx, sit.Fed.UID, record.At(sit.Now), request.AnswerOf(d))
			if err := c.keepAlong(v, tx, ch, &sit.Fed); err != nil || len(d.Put) == 0 {
				return err
			}
			return putDecision(d, sit, tx)
		},
	})
	if err != nil {
		return err
	}
	return c.gate.Shows(ctx, res.Revision)
}

// amended lists the tombstones of members that leave already, with the orders of a request that
// names them again.
func amended(d *ChangeDraft) []gate.Placed {
	order := d.ch.removal
	if order.also == nil || order.data == "" && order.jobs == "" {
		return nil
	}
	var out []gate.Placed
	for _, r := range d.Sit.Leaving {
		if r.Desired == nil || r.Acknowledged() || !order.also(r.At) {
			continue
		}
		t := *r.Desired
		t.Data, t.Jobs = cmp.Or(order.data, t.Data), cmp.Or(order.jobs, t.Jobs)
		if t.Data == r.Desired.Data && t.Jobs == r.Desired.Jobs {
			continue
		}
		t.RequestID = d.ch.Claim.RequestID
		out = append(out, decide.PlacedAt(r, &t))
	}
	return out
}

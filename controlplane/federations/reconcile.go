package federations

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// reconcile takes the next step of one federation, and of its batch while it is created, and
// returns when to look again. The transaction of a step compares the federation's record, so that
// of two instances one wins and the other has nothing left to do.
func (c *Controller) reconcile(ctx context.Context, uid string) (time.Duration, error) {
	all, own := c.together(uid)
	if own < 0 {
		return 0, nil
	}
	if c.gate.Unverified() {
		return 0, gate.ErrStale
	}
	all.decide(func(sits []view.Situation) []decide.Decision { return decide.Batch(sits, own, c.limits) })
	taken := all.taken()
	if len(taken) == 0 {
		again := all[own].next.Again
		if again.IsZero() {
			return 0, nil
		}
		return max(again.Sub(c.cfg.Now()), 10*time.Millisecond), nil
	}
	fence, err := c.complete(ctx, &all[own])
	if err != nil {
		return 0, err
	}
	if taken = all.taken(); len(taken) == 0 {
		return 0, nil
	}
	name := string(taken[0].next.Step)
	c.gate.Fail("before_" + name)
	ctx, end := c.cfg.Tracer.Continue(ctx, taken[0].sit.Fed.RequestID, "federation "+name, attribute.String("federation", taken[0].sit.Fed.UID))
	rev, err := c.commitSteps(ctx, all, fence)
	end(err)
	if err != nil {
		return 0, err
	}
	c.gate.Fail("after_" + name)
	for _, s := range taken {
		c.cfg.Step(string(s.next.Step))
		c.cfg.Logger.Info("federation step", "federation", s.sit.Fed.UID, "group_id", s.sit.Fed.GroupID, "generation", s.sit.Fed.Generation,
			"step", s.next.Step, "revision", rev, "request_id", s.sit.Fed.RequestID, "detail", detailOf(s.next))
	}
	return 0, c.state.Wait(ctx, rev)
}

// complete makes what a decision only names, and returns the fence before that was staged.
func (c *Controller) complete(ctx context.Context, s *step) (fence int64, err error) {
	next := s.next
	switch {
	case next.Leave != "":
		next, err = c.leaveCluster(ctx, s.sit, s.rev, next.Leave)
	case next.Whole != "":
		next, err = c.makeWhole(ctx, s.sit, next.Whole)
	default:
		return 0, nil
	}
	s.next = next
	return next.Fence, err
}

// commitSteps writes steps in one transaction. With a fence, no cluster may have changed since.
func (c *Controller) commitSteps(ctx context.Context, all steps, fence int64) (int64, error) {
	keys := all.keys()
	if fence != 0 {
		keys = append(keys, record.FenceKey)
	}
	var guess *store.View
	if all.request() == "" { // requests are not mirrored
		guess = c.state.Mirror.Snapshot().Guess(keys...)
	}
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, From: guess,
		Build: func(v store.View, tx *store.Txn) error {
			if fence != 0 {
				if kv, _ := v.KV(record.FenceKey); kv.ModRevision != fence {
					return gate.ErrStale
				}
				tx.Expect(record.FenceKey)
			}
			return all.put(v, tx)
		},
	})
	return res.Revision, err
}

func detailOf(d decide.Decision) string {
	if d.Fed == nil {
		return ""
	}
	return d.Fed.Detail
}

// putDecision puts a decision about one federation into the transaction. The answer to its request
// is not in it: steps.put writes that.
func putDecision(n decide.Decision, s view.Situation, tx *store.Txn) error {
	if err := s.Understood(); err != nil {
		return err
	}
	old := s.Fed
	key := record.FederationKey(old.UID)
	switch {
	case n.RemoveFed:
		tx.Delete(key)
		tx.DeletePrefix(record.HistoryPrefix + old.UID + "/")
		tx.Delete(record.SecretsKey(old.UID, old.Generation))
		tx.DeletePrefix(record.PartsOfPrefix(old.UID))
		// The order to the holder of the refresh token outlives it, until it is carried out.
		tokens.Drop(&old, tx, nil)
	case n.Fed != nil:
		tx.Put(key, n.Fed)
		tx.Touch(key)
		if over(n.Fed.Phase) {
			tx.Delete(record.SecretsKey(old.UID, old.Generation))
			tokens.Drop(&old, tx, func(cluster string) bool { return ends(n, s, cluster) })
		}
	}
	for _, key := range n.Drop {
		tx.Delete(key)
	}
	for _, a := range n.Add {
		tx.Put(a.Key, a.Rec)
	}
	if n.DropName {
		tx.Delete(record.NameKey(old.Owner, old.GroupID))
	}
	for _, p := range n.Put {
		tx.Put(record.DesiredServiceKey(p.Cluster, p.Service), p.Rec)
		if p.DropSpec != "" {
			tx.Delete(record.SpecKey(p.Cluster, p.DropSpec))
		}
	}
	for _, r := range n.Remove {
		if n.Fed == nil && !n.RemoveFed && old.Phase == record.PhaseRolledBack && !ends(n, s, r.Cluster) {
			tx.Delete(record.TokensKey(r.Cluster, old.UID))
		}
		tx.Delete(record.DesiredServiceKey(r.Cluster, r.Service))
		tx.Delete(record.ObservedServiceKey(r.Cluster, r.Service))
		if r.Spec != "" {
			tx.Delete(record.SpecKey(r.Cluster, r.Spec))
		}
		if r.Deleted != nil {
			tx.Put(record.DeletedKey(r.Deleted.UID), r.Deleted)
		}
	}
	if e := request.EntryOfStep(old, n); e != nil {
		request.Note(tx, s.Now, *e)
	}
	return nil
}

// ends says whether a replica is to end on a cluster yet: that goes with its owner's access token. A volume is his, and
// so is a Secret that an OSCAR has left in his namespace.
func ends(n decide.Decision, s view.Situation, cluster string) bool {
	left := 0
	for _, r := range slices.Concat(s.Replicas, s.Leaving) {
		if r.At.ClusterID == cluster && r.Desired != nil {
			left++
		}
	}
	for _, gone := range n.Remove {
		if gone.Cluster == cluster {
			left--
		}
	}
	return left > 0
}

// leaveCluster renders a federation without its members on a cluster. The returned decision is
// the whole change, written at once or not at all.
func (c *Controller) leaveCluster(ctx context.Context, s view.Situation, rev int64, cluster string) (decide.Decision, error) {
	ch := Change{Caller: Administrator(), removal: removal{only: true}, Claim: request.Claim{RequestID: s.Removing[cluster].RequestID}}
	draft, err := c.DraftChange(ctx, ch, view.MemberRef{UID: s.Fed.UID, Rec: &s.Fed, Rev: rev}, func(old *oscar.Service) (*oscar.Service, error) {
		service := old.Clone()
		fed := OfService(service)
		fed.Members = slices.DeleteFunc(slices.Clone(fed.Members), func(m oscar.Member) bool { return m.ClusterID == cluster })
		return service, nil
	})
	if err != nil {
		return decide.Decision{}, fmt.Errorf("federation %s without its member on cluster %q: %w", s.Fed.UID, cluster, err)
	}
	if !draft.Differs {
		return decide.Decision{}, fmt.Errorf("federation %s has a member on cluster %q that its definition does not name", s.Fed.UID, cluster)
	}
	if err := c.Stage(ctx, draft.before); err != nil {
		return decide.Decision{}, err
	}
	d := decide.ApplyChange(draft.Sit, decide.NewProposal(draft.Next, draft.specs))
	d.Step, d.Add, d.Fence = decide.StepLeave, draft.definition, draft.Fence
	return d, nil
}

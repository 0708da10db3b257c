package federations

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// reconcile takes the next step of one federation and returns when to look again. The
// transaction of a step compares the federation's record, so that of two instances one wins and
// the other has nothing left to do.
func (c *Controller) reconcile(ctx context.Context, uid string) (time.Duration, error) {
	s, rev, ok := c.situation(uid)
	if !ok {
		return 0, nil
	}
	if c.gate.Unverified() {
		return 0, gate.ErrStale
	}
	next := decide.Decide(s, c.limits)
	if next.Name == "" {
		if next.Again.IsZero() {
			return 0, nil
		}
		return max(next.Again.Sub(c.cfg.Now()), 10*time.Millisecond), nil
	}
	if next.Leave != "" {
		var err error
		if next, err = c.leaveCluster(ctx, s, rev, next.Leave); err != nil {
			return 0, err
		}
	}
	c.gate.Fail("before_" + next.Name)
	key := record.FederationKey(uid)
	keys := []string{key}
	if next.Fence != 0 {
		keys = append(keys, record.FenceKey)
	}
	guess := c.state.Mirror.Snapshot().Guess(keys...)
	if next.Request != "" {
		// Requests are not mirrored.
		keys, guess = append(keys, record.RequestKey(next.Request)), nil
	}
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, From: guess,
		Build: func(v store.View, tx *store.Txn) error {
			if kv, ok := v.KV(key); !ok || kv.ModRevision != rev {
				return gate.ErrStale
			}
			tx.Expect(key)
			if next.Fence != 0 {
				if kv, _ := v.KV(record.FenceKey); kv.ModRevision != next.Fence {
					return gate.ErrStale
				}
				tx.Expect(record.FenceKey)
			}
			return putDecision(next, s, v, tx)
		},
	})
	if err != nil {
		return 0, err
	}
	c.gate.Fail("after_" + next.Name)
	c.cfg.Step(next.Name)
	c.cfg.Logger.Info("federation step", "federation", uid, "group_id", s.Fed.GroupID, "generation", s.Fed.Generation,
		"step", next.Name, "revision", res.Revision, "request_id", s.Fed.RequestID, "detail", detailOf(next))
	return 0, c.state.Wait(ctx, res.Revision)
}

func detailOf(d decide.Decision) string {
	if d.Fed == nil {
		return ""
	}
	return d.Fed.Detail
}

// situation reads one federation and its replicas at one revision.
func (c *Controller) situation(uid string) (view.Situation, int64, bool) {
	var s view.Situation
	var rev int64
	found := false
	c.state.Read(func(v *view.View) {
		f, ok := v.Federations.Lookup(uid)
		if !ok {
			return
		}
		found, rev = true, f.Rev
		s = v.Situation(f.Rec)
	})
	s.Now = c.cfg.Now()
	s.Age = c.state.Elapsed.Age(rev, s.Now)
	if found {
		decide.DeadlinesOf(&c.seen, &s)
	} else {
		c.seen.Forget(uid)
		c.seen.Forget(uid + "/change")
	}
	return s, rev, found
}

// putDecision puts a decision into the transaction.
func putDecision(n decide.Decision, s view.Situation, v store.View, tx *store.Txn) error {
	if err := s.Understood(); err != nil {
		return err
	}
	old := s.Fed
	key := record.FederationKey(old.UID)
	switch {
	case n.RemoveFed:
		tx.Delete(key)
		for g := max(1, old.Generation-decide.KeepHistory); g <= old.Generation; g++ {
			tx.Delete(record.HistoryKey(old.UID, g))
		}
		tx.Delete(record.SecretsKey(old.UID, old.Generation))
		tx.DeletePrefix(record.PartsOfPrefix(old.UID))
		// The order to the holder of the refresh token outlives it, until it is carried out.
		tokens.Drop(&old, tx)
	case n.Fed != nil:
		tx.Put(key, n.Fed)
		tx.Touch(key)
		if over(n.Fed.Phase) {
			tx.Delete(record.SecretsKey(old.UID, old.Generation))
			tokens.Drop(&old, tx)
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
	if n.Request != "" {
		return request.WriteAnswer(n.Request, old.UID, request.AnswerOf(n), v, tx)
	}
	return nil
}

// leaveCluster renders a federation without its members on a cluster. The returned decision is
// the whole change, written at once or not at all.
func (c *Controller) leaveCluster(ctx context.Context, s view.Situation, rev int64, cluster string) (decide.Decision, error) {
	id := Change{Caller: Administrator(), removes: true, Claim: request.Claim{RequestID: s.Removing[cluster].RequestID}}
	draft, err := c.DraftChange(ctx, id, view.MemberRef{UID: s.Fed.UID, Rec: &s.Fed, Rev: rev}, func(old *oscar.Service) (*oscar.Service, error) {
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
	d.Name, d.Add, d.Fence = "leave", draft.definition, draft.Fence
	return d, nil
}

package federations

import (
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// step is what happens to one federation in a transaction.
type step struct {
	sit view.Situation
	// rev is the revision of the federation's record that the step is decided on.
	rev  int64
	next decide.Decision
}

// steps are those of the federations that take them in one transaction: one of a federation that
// is alone, and all of a batch. The step of some may be empty.
type steps []step

// together are the situations of a federation and of those that take their steps with it. own is
// its own place among them, which is negative when there is no such federation.
func (c *Controller) together(uid string) (all steps, own int) {
	own = -1
	c.state.Read(func(v *view.View) {
		f, ok := v.Federations.Lookup(uid)
		if !ok {
			return
		}
		for _, of := range v.Together(f) {
			if of.Rec.UID == uid {
				own = len(all)
			}
			all = append(all, step{sit: v.Situation(of.Rec), rev: of.Rev})
		}
	})
	if own < 0 {
		c.seen.Forget(uid)
		c.seen.Forget(uid + "/change")
	}
	for i := range all {
		s := &all[i].sit
		s.Now = c.cfg.Now()
		s.Age = c.state.Elapsed.Age(all[i].rev, s.Now)
		decide.DeadlinesOf(&c.seen, s)
	}
	return all, own
}

// situation reads one federation and its replicas at one revision.
func (c *Controller) situation(uid string) (view.Situation, int64, bool) {
	all, own := c.together(uid)
	if own < 0 {
		return view.Situation{}, 0, false
	}
	return all[own].sit, all[own].rev, true
}

// decide sets what happens next to each.
func (all steps) decide(with func([]view.Situation) []decide.Decision) {
	sits := make([]view.Situation, len(all))
	for i := range all {
		sits[i] = all[i].sit
	}
	for i, d := range with(sits) {
		all[i].next = d
	}
}

// taken are the steps that are not empty.
func (all steps) taken() (out steps) {
	for _, s := range all {
		if s.next.Step != "" {
			out = append(out, s)
		}
	}
	return out
}

// request is the hash of the request whose outcome the steps decide; empty for none.
func (all steps) request() string {
	for _, s := range all {
		if s.next.Request != "" {
			return s.next.Request
		}
	}
	return ""
}

// keys are those that the transaction reads: the records of the store, of the federations, and of
// the request.
func (all steps) keys() []string {
	out := []string{record.MetaKey}
	for _, s := range all {
		out = append(out, record.FederationKey(s.sit.Fed.UID))
	}
	if hash := all.request(); hash != "" {
		out = append(out, record.RequestKey(hash))
	}
	return out
}

// put puts the steps into a transaction, which compares the epoch that they are decided in, and the
// records of all federations: it returns ErrStale when one has changed. Votes that a restore has
// lost decide nothing in the epoch after it.
func (all steps) put(v store.View, tx *store.Txn) error {
	if err := gate.DecidedIn(v, tx, all[0].sit.Epoch); err != nil {
		return err
	}
	for _, s := range all {
		key := record.FederationKey(s.sit.Fed.UID)
		if kv, ok := v.KV(key); !ok || kv.ModRevision != s.rev {
			return gate.ErrStale
		}
		tx.Expect(key)
	}
	for _, s := range all.taken() {
		if err := putDecision(s.next, s.sit, tx); err != nil {
			return err
		}
	}
	if hash := all.request(); hash != "" {
		uid, answer := all.answer()
		return request.WriteAnswer(hash, uid, answer, v, tx)
	}
	return nil
}

// answer is the outcome of the request that the steps decide, and the federation that the record of
// the request names: the first of a batch.
func (all steps) answer() (uid string, answer *record.Answer) {
	at := slices.IndexFunc(all, func(s step) bool { return s.sit.Fed.Batch != "" && s.sit.Fed.Phase.InFlight() })
	if at < 0 {
		return all[0].sit.Fed.UID, request.AnswerOf(all[0].next)
	}
	out := &record.Answer{}
	for _, s := range all {
		if s.next.Fed == nil {
			s.next.Fed = &s.sit.Fed
		}
		one := request.AnswerOf(s.next)
		out.Phase = one.Phase
		if one.Federation != nil {
			out.Batch = append(out.Batch, one.Federation)
		}
	}
	return all[at].sit.Fed.Batch, out
}

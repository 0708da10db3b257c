package tokens

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// askPause is the least time between two records of one kind that the control plane writes for one
	// member, so that a hostile member or holder makes no more work than that. The record tells when it was
	// written, so none is deleted earlier either, unless the federation ends.
	askPause = 5 * time.Second
	// orderPause is the least time between two orders to end the holding of a token, of which the holder says
	// that it keeps a later one.
	orderPause = 5 * time.Minute
	// grantSlack is how long a grant is kept after its end, since clocks differ.
	grantSlack = time.Minute
)

// tokenSituation is one federation's tokens, as they stood at one revision.
type tokenSituation struct {
	uid string
	// fed is nil when the federation is gone, and fedRev 0. adopted says that its service lives on in
	// another one that has a refresh token.
	fed     *record.Federation
	fedRev  int64
	adopted bool
	// erases says that it is being deleted with the data of its owner.
	erases bool
	tokens *view.TokenState
	// holderAlive says whether a holder's syncer has a session.
	holderAlive map[string]bool
	// recipients are the keys of the members that want a token, as their syncers
	// report them.
	recipients map[string]string
	now        time.Time
	// until is when members' grants end by our clock, if their holders have reported how long
	// they are good.
	until map[string]time.Time
}

// tokenStep is written whole or not at all, and only while the records that it was decided on
// are unchanged.
type tokenStep struct {
	// name for the log and the metrics.
	name string
	// expect has the mod revision of each key that the step was decided on; 0 for absent.
	expect map[string]int64
	// put are the records to write; nil deletes.
	put map[string]any
}

func (s *tokenStep) write(key string, revision int64, rec any) {
	s.expect[key], s.put[key] = revision, rec
}

// decideTokens returns the next steps of a federation's tokens, and when the clock alone may
// bring another step; zero when it cannot. It is pure.
//
// It checks each want: only the cluster itself can have written it, only a cluster with a
// replica in the federation gets an answer, and the holder receives the key that this cluster's
// syncer reports, whatever the want says. A token of the holder is passed on once for each ask.
func decideTokens(s tokenSituation) (steps []tokenStep, again time.Time) {
	if record.Strange(s.fed) != "" {
		return nil, time.Time{} // the worker of package federations reports it
	}
	add := func(step tokenStep) {
		if len(step.put) > 0 {
			steps = append(steps, step)
		}
	}
	for _, holder := range slices.Sorted(maps.Keys(s.tokens.Holds)) {
		step, at := s.decideHold(holder)
		add(step)
		again = sooner(again, at)
	}
	for _, p := range s.exchanges() {
		if s.wants(p.Member) == nil {
			step, at := s.dropExchange(p)
			add(step)
			again = sooner(again, at)
		}
	}
	members := maps.Clone(s.tokens.Wants)
	for member := range s.tokens.Grants {
		if _, ok := members[member]; !ok {
			members[member] = view.Versioned[record.Want]{}
		}
	}
	for _, member := range slices.Sorted(maps.Keys(members)) {
		step, at := s.decideWant(member)
		add(step)
		again = sooner(again, at)
	}
	return steps, again
}

// sooner is the earlier of two times; zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// step begins a step. Every step compares the federation's record.
func (s *tokenSituation) step(name string) tokenStep {
	return tokenStep{name: name, expect: map[string]int64{record.FederationKey(s.uid): s.fedRev}, put: map[string]any{}}
}

// ending is the order to the holder that follows from the federation's end; empty while it
// lives.
func (s *tokenSituation) ending() record.HoldOrder {
	switch {
	case s.fed == nil && s.adopted:
		// The other one's may be this token, or another one of the same login.
		return record.HoldForget
	case s.fed == nil, s.fed.Phase == record.PhaseDeleting && !s.erases:
		// A revocation may end the access tokens of the same login, one of which erases.
		return record.HoldRevoke
	case s.fed.Phase == record.PhaseRollingBack, s.fed.Phase.Result():
		// Its owner will try again, with the same token perhaps.
		return record.HoldForget
	}
	return ""
}

func (s *tokenSituation) decideHold(holder string) (step tokenStep, again time.Time) {
	h, report := s.tokens.Holds[holder], s.tokens.Holdings[holder]
	key := record.HoldKey(holder, s.uid)
	end := s.ending()
	switch {
	case h.Rec == nil: // it cannot be read; the next token or deletion replaces it
	case h.Rec.Order == record.HoldKeep && end != "":
		step = s.step("token_" + string(end))
		step.write(key, h.Rev, h.Rec.Ended(end, s.now))
	case end != "" && report.Rec.KeepsLater() && report.Rec.Serial >= h.Rec.Serial:
		// The order is older than the federation's end: its owner gave another token since.
		if again = time.UnixMilli(h.Rec.Serial).Add(orderPause); s.now.Before(again) {
			return step, again
		}
		step = s.step("token_" + string(end))
		step.write(key, h.Rev, h.Rec.Ended(end, s.now))
		step.expect[record.HoldingKey(holder, s.uid)] = report.Rev
	case !report.Rec.Settles(h.Rec):
	case h.Rec.Order == record.HoldKeep && h.Rec.Refresh != "":
		next := *h.Rec
		next.Refresh = ""
		step = s.step("token_stored")
		step.write(key, h.Rev, &next)
		step.expect[record.HoldingKey(holder, s.uid)] = report.Rev
	case h.Rec.Order != record.HoldKeep && end != "":
		step = s.step("token_ended")
		step.write(key, h.Rev, nil)
		step.write(record.HoldingKey(holder, s.uid), report.Rev, nil)
	}
	return step, time.Time{}
}

// serves says whether a cluster has a replica in a living federation.
func (s *tokenSituation) serves(member string) bool {
	return s.fed != nil && s.ending() == "" &&
		slices.ContainsFunc(s.fed.Members, func(m record.Member) bool { return m.Replica() && m.ClusterID == member })
}

// wants is the want of a member of a living federation; nil otherwise.
func (s *tokenSituation) wants(member string) *record.Want {
	if !s.serves(member) {
		return nil
	}
	return s.tokens.Wants[member].Rec
}

// pausedUntil is when a record of a time may be followed by the next of its kind; zero for now.
func (s *tokenSituation) pausedUntil(written record.Time) time.Time {
	if until := written.Add(askPause); !written.After(s.now) && s.now.Before(until) {
		return until
	}
	return time.Time{}
}

// askedLately and grantedLately are pausedUntil of an ask and of what a member was told; nil for none.
func (s *tokenSituation) askedLately(ask *record.TokenAsk) time.Time {
	if ask == nil {
		return time.Time{}
	}
	return s.pausedUntil(ask.AskedAt)
}

func (s *tokenSituation) grantedLately(grant *record.Grant) time.Time {
	if grant == nil {
		return time.Time{}
	}
	return s.pausedUntil(grant.GrantedAt)
}

// exchanges lists the open asks between holders and members.
func (s *tokenSituation) exchanges() []view.Exchange {
	all := map[view.Exchange]bool{}
	for p := range s.tokens.Asks {
		all[p] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b view.Exchange) int {
		return cmp.Or(cmp.Compare(a.Holder, b.Holder), cmp.Compare(a.Member, b.Member))
	})
}

// dropExchange deletes an ask and its answer.
func (s *tokenSituation) dropExchange(p view.Exchange) (step tokenStep, again time.Time) {
	if s.serves(p.Member) {
		again = s.askedLately(s.tokens.Asks[p].Rec)
	}
	if again.IsZero() {
		step = s.step("token_ask_dropped")
		s.closeExchange(&step, p)
	}
	return step, again
}

// closeExchange deletes an ask and, with it, the holder's answer.
func (s *tokenSituation) closeExchange(step *tokenStep, p view.Exchange) {
	if ask, ok := s.tokens.Asks[p]; ok {
		step.write(record.TokenAskKey(p.Holder, s.uid, p.Member), ask.Rev, nil)
		if given, ok := s.tokens.Granted[p]; ok {
			step.write(record.GrantedKey(p.Holder, s.uid, p.Member), given.Rev, nil)
		}
	}
}

// decideWant takes the next step about what one member wants.
func (s *tokenSituation) decideWant(member string) (step tokenStep, again time.Time) {
	want, grant := s.tokens.Wants[member], s.tokens.Grants[member]
	wantKey, grantKey := record.WantKey(member, s.uid), record.GrantKey(member, s.uid)
	if s.wants(member) == nil {
		if s.serves(member) {
			again = s.grantedLately(grant.Rec)
		}
		if grant.Rev != 0 && again.IsZero() {
			step = s.step("token_taken_back")
			step.write(grantKey, grant.Rev, nil)
			step.expect[wantKey] = want.Rev
		}
		return step, again
	}
	holder, hold := s.tokens.Hold()
	p := view.Exchange{Holder: holder, Member: member}
	usable := hold.Rec != nil && hold.Rec.Order == record.HoldKeep
	if usable && grant.Rec != nil && grant.Rec.Nonce == want.Rec.Nonce && grant.Rec.Access != "" && grant.Rec.Expires != nil {
		until := s.grantEnd(member)
		if s.now.Before(until) {
			return step, until
		}
		step = s.step("token_grant_expired")
		step.write(grantKey, grant.Rev, nil)
		step.write(wantKey, want.Rev, nil)
		return step, again
	}
	given, ask := s.tokens.Granted[p], s.tokens.Asks[p]
	if usable && ask.Rec != nil && ask.Rec.Nonce == want.Rec.Nonce &&
		given.Rec != nil && given.Rec.Nonce == want.Rec.Nonce && given.Rec.Access != "" && given.Rec.Expires != nil {
		step = s.step("token_granted")
		step.expect[wantKey] = want.Rev
		next := *given.Rec
		next.GrantedAt = record.At(s.now)
		step.write(grantKey, grant.Rev, &next)
		s.closeExchange(&step, p)
		return step, again
	}
	if again = s.pausedUntil(s.lastAsked(p)); !again.IsZero() {
		return step, again
	}
	return s.ask(p, hold, usable)
}

// grantEnd is when the grant of a member is dropped.
func (s *tokenSituation) grantEnd(member string) time.Time {
	grant := s.tokens.Grants[member].Rec
	until, reported := s.until[member]
	if !reported {
		until = grant.Expires.Time
	}
	until = until.Add(grantSlack)
	if paused := s.grantedLately(grant); paused.After(until) {
		return paused
	}
	return until
}

// lastAsked is when an earlier want of a member was last passed on or answered; zero for never.
// A member that changes its want all the time has to wait.
func (s *tokenSituation) lastAsked(p view.Exchange) (last record.Time) {
	want, grant, ask := s.tokens.Wants[p.Member].Rec, s.tokens.Grants[p.Member].Rec, s.tokens.Asks[p].Rec
	if grant != nil && grant.Nonce != want.Nonce {
		last = grant.GrantedAt
	}
	if ask != nil && ask.Nonce != want.Nonce && ask.AskedAt.After(last.Time) {
		last = ask.AskedAt
	}
	return last
}

// ask passes the want of a member on to the holder, or tells the member why it gets no token.
// usable says that the holder is to keep its token.
func (s *tokenSituation) ask(p view.Exchange, hold view.Versioned[record.Hold], usable bool) (step tokenStep, again time.Time) {
	want, grant, ask := s.tokens.Wants[p.Member], s.tokens.Grants[p.Member], s.tokens.Asks[p]
	step = s.step("token_asked")
	step.expect[record.WantKey(p.Member, s.uid)] = want.Rev
	if status := s.refusal(p.Holder, hold.Rec, s.tokens.Granted[p].Rec, want.Rec); status != nil && !status.same(grant.Rec) {
		if again = s.grantedLately(grant.Rec); again.IsZero() {
			step.write(record.GrantKey(p.Member, s.uid), grant.Rev, status.rec(want.Rec.Nonce, s.now))
		}
	}
	if recipient := s.recipients[p.Member]; usable && recipient != "" &&
		(ask.Rec == nil || ask.Rec.Nonce != want.Rec.Nonce || ask.Rec.Recipient != recipient) {
		if paused := s.askedLately(ask.Rec); !paused.IsZero() {
			again = sooner(again, paused)
		} else {
			step.expect[record.HoldKey(p.Holder, s.uid)] = hold.Rev
			step.write(record.TokenAskKey(p.Holder, s.uid, p.Member), ask.Rev, &record.TokenAsk{
				V: record.Version, Nonce: want.Rec.Nonce, Recipient: recipient, AskedAt: record.At(s.now),
			})
		}
	}
	if !usable {
		for open := range s.tokens.Asks {
			if open.Member == p.Member {
				s.closeExchange(&step, open)
			}
		}
	}
	return step, again
}

// noToken says why a member gets no token at present.
type noToken struct {
	reason  record.Reason
	message string
	nonce   string
}

func (n *noToken) same(g *record.Grant) bool {
	return g != nil && g.Nonce == n.nonce && g.Access == "" && g.Reason == n.reason && g.Message == n.message
}

func (n *noToken) rec(nonce string, now time.Time) *record.Grant {
	return &record.Grant{V: record.Version, Nonce: nonce, Reason: n.reason, Message: n.message, GrantedAt: record.At(now)}
}

// refusal says why a member gets no token; nil while one may come.
func (s *tokenSituation) refusal(holder string, hold *record.Hold, given *record.Grant, want *record.Want) *noToken {
	n := &noToken{nonce: want.Nonce}
	report := s.tokens.Holdings[holder].Rec
	if report != nil && hold != nil && report.Serial < hold.Serial {
		report = nil
	}
	switch {
	case hold == nil || hold.Order != record.HoldKeep:
		n.reason = record.ReasonNeedsUserToken
		n.message = "no cluster holds a refresh token of the owner; he gives one with PUT .../refresh-token (oscarfed token set), or an access token with his next change (oscarfed token refresh)"
	case report != nil && report.State == record.HoldLost:
		n.reason = record.ReasonTokenLost
		n.message = report.Message + "; the owner gives another one (oscarfed token set)"
	case !s.holderAlive[holder]:
		n.reason = record.ReasonTokenHolderAway
		n.message = fmt.Sprintf("cluster %s holds the owner's refresh token, and has no syncer connected", holder)
	case report != nil && report.State == record.HoldFailing:
		n.reason = record.ReasonTokenHolderAway
		n.message = fmt.Sprintf("cluster %s holds the owner's refresh token, and gets no access token for it: %s", holder, report.Message)
	case given != nil && given.Nonce == want.Nonce && given.Access == "":
		n.reason, n.message = given.Reason, given.Message
	default:
		return nil
	}
	n.message = view.Sentence(n.message) // as it will be read
	return n
}

// situationOf is the situation of a federation's tokens; false when the store has none.
func situationOf(v *view.View, uid string) (tokenSituation, bool) {
	c := v.Tokens.Get(uid)
	if c == nil {
		return tokenSituation{}, false
	}
	out := tokenSituation{uid: uid, tokens: c, holderAlive: map[string]bool{}, recipients: map[string]string{}}
	if f, ok := v.Federations.Lookup(uid); ok {
		out.fed, out.fedRev = f.Rec, f.Rev
		out.erases = f.Rec.Phase == record.PhaseDeleting && slices.ContainsFunc(v.Situation(f.Rec).Replicas, func(r view.ReplicaState) bool {
			return r.Desired != nil && r.Desired.Tombstone() && r.Desired.Data == record.DataDelete
		})
	}
	if heir := v.Heir(uid); heir != nil {
		out.adopted = v.Tokens.Kept(heir.UID)
	}
	for holder := range c.Holds {
		out.holderAlive[holder] = v.Alive(holder)
	}
	for member := range c.Wants {
		out.recipients[member] = v.Recipient(member)
	}
	return out, true
}

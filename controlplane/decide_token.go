package controlplane

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// askPause lies between two asks of one member that the control plane passes on:
	// a hostile one makes no more work than that.
	askPause = 5 * time.Second
	// grantSlack is how long after its end a grant is still there: clocks differ.
	grantSlack = time.Minute
)

// tokenSituation is one federation's tokens, as they stood at one revision.
type tokenSituation struct {
	uid string
	// fed is nil when the federation is gone, and fedRev 0.
	fed     *record.Federation
	fedRev  int64
	custody *custody
	// holderAlive says whether a holder's syncer has a session.
	holderAlive map[string]bool
	// recipients are the keys of the members that want a token, as their syncers
	// report them.
	recipients map[string]string
	now        time.Time
	// until is when members' grants end by our clock, as far as their holders say for how
	// long they are good.
	until map[string]time.Time
}

// tokenStep is written whole or not at all, and only while what it was decided on
// stands as it did.
type tokenStep struct {
	// name for the log and the metrics.
	name string
	// expect has the mod revision of each key that it was decided on; 0 for absent.
	expect map[string]int64
	// put are the records to write; nil deletes.
	put map[string]any
}

func (s *tokenStep) write(key string, revision int64, rec any) {
	s.expect[key], s.put[key] = revision, rec
}

// decideTokens gives the next steps of a federation's tokens, and when the clock alone
// may bring another one; zero when it cannot. It is pure.
//
// Who asks is checked here: only the cluster itself can have written what it wants,
// only one with a replica in the federation is heard, and the holder is told the key
// that this cluster's syncer reports, whatever the want says.
func decideTokens(s tokenSituation) (steps []tokenStep, again time.Time) {
	if record.Strange(s.fed) != "" {
		return nil, time.Time{} // the decider of federations tells of it
	}
	add := func(step tokenStep) {
		if len(step.put) > 0 {
			steps = append(steps, step)
		}
	}
	for _, holder := range slices.Sorted(maps.Keys(s.custody.holds)) {
		add(s.decideHold(holder))
	}
	for _, p := range s.passages() {
		if s.wants(p.member) == nil {
			add(s.dropPassage(p))
		}
	}
	members := maps.Clone(s.custody.wants)
	for member := range s.custody.grants {
		if _, ok := members[member]; !ok {
			members[member] = versioned[record.Want]{}
		}
	}
	for _, member := range slices.Sorted(maps.Keys(members)) {
		step, at := s.decideWant(member)
		add(step)
		if !at.IsZero() && (again.IsZero() || at.Before(again)) {
			again = at
		}
	}
	return steps, again
}

// step begins one: every step compares the federation.
func (s *tokenSituation) step(name string) tokenStep {
	return tokenStep{name: name, expect: map[string]int64{record.FederationKey(s.uid): s.fedRev}, put: map[string]any{}}
}

// ending is the order that the federation's end gives the holder; empty while it lives.
func (s *tokenSituation) ending() record.HoldOrder {
	switch {
	case s.fed == nil, s.fed.Phase == record.PhaseDeleting:
		return record.HoldRevoke
	case s.fed.Phase == record.PhaseRollingBack, s.fed.Phase.Result():
		// Its owner will try again, with the same token perhaps.
		return record.HoldForget
	}
	return ""
}

func (s *tokenSituation) decideHold(holder string) tokenStep {
	h, report := s.custody.holds[holder], s.custody.holdings[holder]
	key := record.HoldKey(holder, s.uid)
	end := s.ending()
	switch {
	case h.rec == nil: // it cannot be read: whoever gives or deletes the token writes it anew
	case h.rec.Order == record.HoldKeep && end != "":
		next := h.rec.Ended(end, s.now)
		step := s.step("token_" + string(end))
		step.write(key, h.rev, next)
		return step
	case !report.rec.Settles(h.rec):
	case h.rec.Order == record.HoldKeep && h.rec.Refresh != "":
		next := *h.rec
		next.Refresh = ""
		step := s.step("token_stored")
		step.write(key, h.rev, &next)
		step.expect[record.HoldingKey(holder, s.uid)] = report.rev
		return step
	case h.rec.Order != record.HoldKeep && end != "":
		step := s.step("token_ended")
		step.write(key, h.rev, nil)
		step.write(record.HoldingKey(holder, s.uid), report.rev, nil)
		return step
	}
	return tokenStep{}
}

// wants is what a member wants, if it is heard; else nil.
func (s *tokenSituation) wants(member string) *record.Want {
	if s.fed == nil || s.ending() != "" {
		return nil
	}
	if !slices.ContainsFunc(s.fed.Members, func(m record.Member) bool { return m.Replica() && m.ClusterID == member }) {
		return nil
	}
	return s.custody.wants[member].rec
}

// passages are all that stands between holders and members.
func (s *tokenSituation) passages() []passage {
	all := map[passage]bool{}
	for p := range s.custody.asks {
		all[p] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b passage) int {
		return cmp.Or(cmp.Compare(a.holder, b.holder), cmp.Compare(a.member, b.member))
	})
}

// dropPassage takes an ask and its answer away.
func (s *tokenSituation) dropPassage(p passage) tokenStep {
	step := s.step("token_ask_dropped")
	s.closePassage(&step, p)
	return step
}

// closePassage deletes an ask and, with it, the holder's answer.
func (s *tokenSituation) closePassage(step *tokenStep, p passage) {
	if ask, ok := s.custody.asks[p]; ok {
		step.write(record.TokenAskKey(p.holder, s.uid, p.member), ask.rev, nil)
		if given, ok := s.custody.granted[p]; ok {
			step.write(record.GrantedKey(p.holder, s.uid, p.member), given.rev, nil)
		}
	}
}

// decideWant takes the next step about what one member wants.
func (s *tokenSituation) decideWant(member string) (step tokenStep, again time.Time) {
	want, grant := s.custody.wants[member], s.custody.grants[member]
	wantKey, grantKey := record.WantKey(member, s.uid), record.GrantKey(member, s.uid)
	if s.wants(member) == nil {
		step = s.step("token_taken_back")
		if grant.rev != 0 {
			step.write(grantKey, grant.rev, nil)
			step.expect[wantKey] = want.rev
		}
		return step, again
	}
	holder, hold := s.custody.hold()
	p := passage{holder, member}
	usable := hold.rec != nil && hold.rec.Order == record.HoldKeep
	answered := grant.rec != nil && grant.rec.Nonce == want.rec.Nonce && grant.rec.Access != "" && grant.rec.Expires != nil
	if usable && answered {
		until, told := s.until[member]
		if !told {
			until = grant.rec.Expires.Time
		}
		until = until.Add(grantSlack)
		if s.now.Before(until) {
			return step, until
		}
		step = s.step("token_grant_expired")
		step.write(grantKey, grant.rev, nil)
		step.write(wantKey, want.rev, nil)
		return step, again
	}
	given := s.custody.granted[p]
	if usable && given.rec != nil && given.rec.Nonce == want.rec.Nonce && given.rec.Access != "" {
		step = s.step("token_granted")
		step.expect[wantKey] = want.rev
		next := *given.rec
		next.GrantedAt = record.At(s.now)
		step.write(grantKey, grant.rev, &next)
		s.closePassage(&step, p)
		return step, again
	}
	// Whoever changes his mind all the time waits.
	ask := s.custody.asks[p]
	last := time.Time{}
	if grant.rec != nil && grant.rec.Nonce != want.rec.Nonce {
		last = grant.rec.GrantedAt.Time
	}
	if ask.rec != nil && ask.rec.Nonce != want.rec.Nonce && ask.rec.AskedAt.After(last) {
		last = ask.rec.AskedAt.Time
	}
	if free := last.Add(askPause); s.now.Before(free) && !last.After(s.now) {
		return step, free
	}
	step = s.step("token_asked")
	step.expect[wantKey] = want.rev
	if status := s.refusal(holder, hold.rec, given.rec, want.rec); status != nil && !status.same(grant.rec) {
		step.write(grantKey, grant.rev, status.rec(want.rec.Nonce, s.now))
	}
	if recipient := s.recipients[member]; usable && recipient != "" &&
		(ask.rec == nil || ask.rec.Nonce != want.rec.Nonce || ask.rec.Recipient != recipient) {
		step.expect[record.HoldKey(holder, s.uid)] = hold.rev
		step.write(record.TokenAskKey(holder, s.uid, member), ask.rev, &record.TokenAsk{
			V: record.Version, Nonce: want.rec.Nonce, Recipient: recipient, AskedAt: record.At(s.now),
		})
	}
	if !usable {
		for p := range s.custody.asks {
			if p.member == member {
				s.closePassage(&step, p)
			}
		}
	}
	return step, again
}

// noToken says why a member gets none at present.
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
	report := s.custody.holdings[holder].rec
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
	return n
}

package invariants

import (
	"github.com/oscarfed/oscarfed/store/record"
)

// Two phases: a vote answers one revision of one prepare record and counts for
// nothing else, and nothing is applied that was not voted for.
func votesStep(c *checker) {
	for _, ch := range c.changes {
		switch ch.ref.Kind {
		case record.KindObservedService:
			if o := as[record.Observed](ch.now); o != nil && o.Vote != nil {
				c.voteAnswers(ch, o)
			}
		case record.KindDesiredService:
			if d := as[record.Desired](ch.now); d != nil && d.Intent == record.IntentApply {
				c.wasVotedFor(ch, d)
			}
		default:
		}
	}
}

func (c *checker) voteAnswers(ch *change, o *record.Observed) {
	if o.Vote.Answer != record.VoteYes && o.Vote.Answer != record.VoteNo {
		c.violatef(RuleVotes, ch.key, "the answer %q is neither yes nor no", o.Vote.Answer)
	}
	l := c.past.lives[o.UID]
	if l == nil || !l.prepares[o.Vote.Revision] {
		c.violatef(RuleVotes, ch.key, "it votes on revision %d, at which uid %s was not asked", o.Vote.Revision, o.UID)
		return
	}
	if was := as[record.Observed](ch.old); was != nil && was.UID == o.UID && was.Vote != nil && *was.Vote == *o.Vote {
		return // carried over
	}
	e := c.before(placeOfRef(ch.ref).desiredKey())
	if d := as[record.Desired](e); d == nil || d.Intent != record.IntentPrepare || e.revision() != o.Vote.Revision {
		c.violatef(RuleVotes, ch.key, "the vote on revision %d was written when the desired record was of revision %d already", o.Vote.Revision, e.revision())
	}
}

// wasVotedFor: a record becomes an apply only from a prepare whose revision was
// answered with yes.
func (c *checker) wasVotedFor(ch *change, d *record.Desired) {
	old := as[record.Desired](ch.old)
	switch {
	case old == nil && c.present() != "" && c.wasOrphan(ch.ref, d.UID):
		return // it was voted for in the history that a restore has lost
	case old == nil && c.outlived(ch.ref, d.UID):
		return // it was voted for before its cluster was removed
	case old == nil || old.UID != d.UID:
		c.violatef(RuleVotes, ch.key, "uid %s is applied without a vote", d.UID)
		return
	case old.Intent != record.IntentPrepare:
		return
	}
	o := as[record.Observed](c.before(placeOfRef(ch.ref).observedKey()))
	switch {
	case o == nil || o.UID != d.UID || o.Vote == nil:
		// Until a restore is noticed, a decision on a vote that it has lost may come through.
		if c.stood < ch.old.revision() || c.present() != c.stoodIn {
			c.violatef(RuleVotes, ch.key, "uid %s is applied and has not voted", d.UID)
		}
	case o.Vote.Answer != record.VoteYes || o.Vote.Revision != ch.old.revision():
		c.violatef(RuleVotes, ch.key, "uid %s is applied; it voted %s on revision %d, and was asked at revision %d", d.UID, o.Vote.Answer, o.Vote.Revision, ch.old.revision())
	}
}

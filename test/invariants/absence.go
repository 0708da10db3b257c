package invariants

import (
	"github.com/oscarfed/oscarfed/store/record"
)

// Promise 5: absence is never an order. What was to be applied is ended by a
// tombstone only, which names this life's uid and a generation not older than the
// service's. The tombstone stays until the cluster has acknowledged exactly it, and
// is then remembered as deleted/<uid>.
func absenceStep(c *checker) {
	for _, ch := range c.changes {
		switch ch.ref.Kind {
		case record.KindDesiredService:
			old, now := as[record.Desired](ch.old), as[record.Desired](ch.now)
			switch {
			case old == nil && now != nil:
				c.appears(ch, now)
			case old != nil && now == nil:
				c.disappears(ch, old)
			case old != nil && now != nil:
				c.continues(ch, old, now)
			}
			if now != nil && now.Tombstone() {
				c.buries(ch, now)
			}
		case record.KindDeleted:
			c.remembers(ch)
		default:
		}
	}
}

func (c *checker) appears(ch *change, now *record.Desired) {
	if now.Tombstone() && !c.past.lives[now.UID].removed && !c.wasOrphan(ch.ref, now.UID) {
		c.violatef(RuleAbsence, ch.key, "a tombstone for uid %s, of which nothing was ever desired here", now.UID)
	}
}

func (c *checker) continues(ch *change, old, now *record.Desired) {
	switch {
	case old.UID != now.UID:
		c.violatef(RuleAbsence, ch.key, "uid %s (%s) is replaced by %s without having been removed", old.UID, old.Intent, now.UID)
	case old.Tombstone() && !now.Tombstone():
		c.violatef(RuleAbsence, ch.key, "a tombstone became %s again", now.Intent)
	case old.Intent == record.IntentApply && now.Intent == record.IntentPrepare:
		c.violatef(RuleAbsence, ch.key, "an apply became a prepare again: only a tombstone ends it")
	}
}

// buries looks at a tombstone as it is written.
func (c *checker) buries(ch *change, t *record.Desired) {
	applied := c.past.lives[t.UID].applied
	if t.Generation < applied {
		c.violatef(RuleAbsence, ch.key, "the tombstone has generation %d, but %d was applied", t.Generation, applied)
	}
	switch t.Cause {
	case record.CauseRollback, record.CauseRemoved, record.CauseDeleted:
	default:
		c.violatef(RuleAbsence, ch.key, "the tombstone has cause %q", t.Cause)
	}
	if t.Spec != "" {
		c.violatef(RuleAbsence, ch.key, "the tombstone has a spec")
	}
}

func (c *checker) disappears(ch *change, old *record.Desired) {
	if !old.Tombstone() {
		if old.Intent == record.IntentApply || c.past.lives[old.UID].applied > 0 {
			c.violatef(RuleAbsence, ch.key, "uid %s, which was to be applied, is gone without a tombstone", old.UID)
		}
		return
	}
	if c.cleared(ch.ref.Cluster) {
		return // whom it was for is not there any more
	}
	if acknowledged := c.past.lives[old.UID].deleted; acknowledged != ch.old.revision() {
		c.violatef(RuleAbsence, ch.key, "the tombstone of uid %s is gone; it was of revision %d, and what cluster %s reported as deleted is of revision %d",
			old.UID, ch.old.revision(), ch.ref.Cluster, acknowledged)
	}
	d := c.changed[record.DeletedKey(old.UID)]
	if d == nil || as[record.Deleted](d.now) == nil {
		c.violatef(RuleAbsence, ch.key, "the tombstone is gone and deleted/%s was not written with it", old.UID)
	}
}

// remembers looks at deleted/<uid>: it comes with the end of the tombstone, or goes
// with a new tombstone for an orphan.
func (c *checker) remembers(ch *change) {
	d := as[record.Deleted](ch.now)
	if d == nil {
		return
	}
	at := place{d.ClusterID, d.ServiceName}
	tomb := c.changed[at.desiredKey()]
	if tomb == nil {
		c.violatef(RuleAbsence, ch.key, "it was written by revision %d, which ends no tombstone at %s", c.revision, at)
		return
	}
	t := as[record.Desired](tomb.old)
	if t == nil {
		t = as[record.Desired](tomb.now)
	}
	if t == nil || !t.Tombstone() || d.UID != ch.ref.Name || t.UID != d.UID || t.Federation != d.Federation ||
		t.Owner != d.Owner || t.Generation < d.Generation || t.Cause != d.Cause {
		c.violatef(RuleAbsence, ch.key, "it remembers uid %s, generation %d, cause %q of %s, which was not the tombstone at %s", d.UID, d.Generation, d.Cause, d.Owner, at)
	}
}

package invariants

import (
	"slices"

	"github.com/oscarfed/oscarfed/store/record"
)

// Promise 2: a cluster and a service name stand for at most one replica, a service
// belongs to at most one federation, a group_id is unique per owner. A uid is one
// life: it never comes back, and never stands for another place.

// uniqueStep follows the lives that a revision speaks of.
func uniqueStep(c *checker) {
	for _, ch := range c.changes {
		if f := as[record.Federation](ch.now); f != nil {
			if f.UID != ch.ref.Name {
				c.violatef(RuleUnique, ch.key, "the record has uid %q", f.UID)
			}
			if ch.old == nil && c.past.gone[ch.ref.Name] != 0 && !c.madeOf(f, c.outlived) {
				c.violatef(RuleUnique, ch.key, "the federation was removed at revision %d and is back: a new one needs a new uid", c.past.gone[ch.ref.Name])
			}
			for _, m := range slices.Concat(replicasOf(f), f.Leaving) {
				c.sameLife(ch.key, m.UID, placeOf(m), f.UID)
			}
		}
		if d := as[record.Desired](ch.now); d != nil {
			c.sameLife(ch.key, d.UID, placeOfRef(ch.ref), d.Federation)
			if l := c.past.lives[d.UID]; ch.old == nil && l.removed && !d.Tombstone() && !c.outlived(ch.ref, d.UID) && !c.refusedAgain(ch.ref, l, d.UID) {
				c.violatef(RuleUnique, ch.key, "replica %s was removed and is back: a new life needs a new uid", d.UID)
			}
		}
	}
}

// refusedAgain says whether a life was only asked for in this history, and made in the one that a restore has lost: it
// may be refused here, be reported, and become a member when a person says so.
func (c *checker) refusedAgain(ref record.Ref, l *life, uid string) bool {
	return c.present() != "" && l.applied == 0 && c.wasOrphan(ref, uid)
}

// sameLife compares a mention of a uid with the first one.
func (c *checker) sameLife(key, uid string, at place, federation string) {
	if uid == "" {
		c.violatef(RuleUnique, key, "%s has no uid", at)
	}
	l := c.past.live(uid, at, federation)
	if l.place != at {
		c.violatef(RuleUnique, key, "uid %s stands for %s, and stood for %s before", uid, at, l.place)
	}
	if l.federation != federation && c.adoptedBy(l.federation, federation) {
		l.federation = federation
	}
	if l.federation != federation {
		c.violatef(RuleUnique, key, "uid %s is in federation %s, and was in %s before", uid, federation, l.federation)
	}
}

// adoptedBy says that this revision ends a federation because its only replica becomes a member of another one.
func (c *checker) adoptedBy(former, federation string) bool {
	was, now := as[record.Federation](c.before(record.FederationKey(former))), c.federation(federation)
	return was != nil && c.federation(former) == nil && was.Phase == record.PhaseReady && len(was.Members) == 1 && len(was.Leaving) == 0 &&
		now != nil && now.Owner == was.Owner && slices.Contains(now.Former, former) &&
		slices.ContainsFunc(now.Members, func(m record.Member) bool {
			return m.UID == was.Members[0].UID && placeOf(m) == placeOf(was.Members[0])
		})
}

// heirOf is the federation that adopts the only replica of another one in this revision; empty for none.
func (c *checker) heirOf(f *record.Federation) string {
	if f == nil || len(f.Members) != 1 {
		return ""
	}
	if d := c.desired(placeOf(f.Members[0]), f.Members[0].UID); d != nil && c.adoptedBy(f.UID, d.Federation) {
		return d.Federation
	}
	return ""
}

func uniqueStands(c *checker, uid string, f, _ *record.Federation) {
	if f == nil {
		return
	}
	key := record.FederationKey(uid)
	uids, places := map[string]bool{}, map[place]bool{}
	for _, m := range replicasOf(f) {
		if uids[m.UID] {
			c.violatef(RuleUnique, key, "two members have uid %s", m.UID)
		}
		if places[placeOf(m)] {
			c.violatef(RuleUnique, key, "%s is a member twice", placeOf(m))
		}
		uids[m.UID], places[placeOf(m)] = true, true
		if holdsName(f.Phase) {
			c.noOther(uid, c.at[placeOf(m)], "service "+placeOf(m).String(), func(other *record.Federation) bool {
				return slices.ContainsFunc(replicasOf(other), func(o record.Member) bool { return placeOf(o) == placeOf(m) })
			})
		}
	}
	if holdsName(f.Phase) {
		c.noOther(uid, c.named[name{f.Owner, f.GroupID}], "group_id "+f.GroupID+" of "+f.Owner, func(*record.Federation) bool { return true })
	}
}

// noOther reports another federation that holds the same thing. Both see it; it is
// told once.
func (c *checker) noOther(uid string, rivals map[string]bool, what string, holds func(*record.Federation) bool) {
	for other := range rivals {
		if f := c.federation(other); other == uid || f == nil || !holdsName(f.Phase) || !holds(f) {
			continue
		}
		first, second := min(uid, other), max(uid, other)
		c.violatef(RuleUnique, record.FederationKey(second), "%s is held by federations %s and %s", what, first, second)
	}
}

package invariants

import (
	"github.com/oscarfed/oscarfed/store/record"
)

// A cluster is identified by the key that it has joined with. A token is made for one registration, ends with a
// lease and is used by one key; the transaction that uses it writes that key into the
// registration. Another key, or another Kubernetes, takes the place of the first only
// by a token that says so.
func joinsStep(c *checker) {
	for _, ch := range c.changes {
		switch ch.ref.Kind {
		case record.KindJoin:
			c.tokenMoves(ch, as[record.Join](ch.old), as[record.Join](ch.now))
		case record.KindCluster:
			c.identityMoves(ch, as[record.Cluster](ch.old), as[record.Cluster](ch.now))
		default:
		}
	}
}

func (c *checker) tokenMoves(ch *change, old, now *record.Join) {
	if now == nil {
		return // its lease was over
	}
	if ch.now.kv.Lease == 0 {
		c.violatef(RuleJoins, ch.key, "a token that never ends")
	}
	reg := as[record.Cluster](c.now(record.ClusterKey(now.ClusterID)))
	if reg == nil || reg.UID != now.ClusterUID {
		c.violatef(RuleJoins, ch.key, "it is for registration %s of cluster %s, which there is not", now.ClusterUID, now.ClusterID)
		return
	}
	switch {
	case old == nil && now.UsedBy != "":
		c.violatef(RuleJoins, ch.key, "it was used before it was made")
	case old == nil:
	case old.UsedBy != "":
		c.violatef(RuleJoins, ch.key, "it was used by %s and is written again", old.UsedBy)
	case now.UsedBy == "" || reg.Joined == nil || reg.Joined.Key != now.UsedBy:
		c.violatef(RuleJoins, ch.key, "it is used by %q, and the registration says %v", now.UsedBy, reg.Joined)
	case old.ClusterUID != now.ClusterUID || old.ReplaceKey != now.ReplaceKey || old.ExpiresAt != now.ExpiresAt:
		c.violatef(RuleJoins, ch.key, "it says something else than when it was made")
	}
}

func (c *checker) identityMoves(ch *change, old, now *record.Cluster) {
	if now == nil {
		return
	}
	var was *record.Joined
	if old != nil && old.UID == now.UID {
		was = old.Joined
	}
	switch {
	case now.Joined == nil && was != nil:
		c.violatef(RuleJoins, ch.key, "who it has joined as is forgotten")
		return
	case now.Joined == nil:
		return
	}
	first := was == nil
	if !first && was.Key == now.Joined.Key && was.Recipient == now.Joined.Recipient && sameKubernetes(was, now.Joined) {
		return // a renewal, or something else of the registration
	}
	token, used := c.usedBy(now)
	switch {
	case token == nil:
		c.violatef(RuleJoins, ch.key, "it has joined as %s with no token", now.Joined.Key)
	case first || was.Key == now.Joined.Key && sameKubernetes(was, now.Joined):
	case !used || !token.ReplaceKey:
		c.violatef(RuleJoins, ch.key, "%s takes the place of %s, which no token says", now.Joined.Key, was.Key)
	}
}

func sameKubernetes(was, now *record.Joined) bool {
	return was.KubeSystemUID == "" || was.KubeSystemUID == now.KubeSystemUID
}

// usedBy is a token that the registration's key has used: in this revision, or before.
func (c *checker) usedBy(reg *record.Cluster) (token *record.Join, used bool) {
	for key, e := range c.keys {
		join := as[record.Join](e)
		if join == nil || join.ClusterUID != reg.UID || join.UsedBy != reg.Joined.Key {
			continue
		}
		token = join
		if c.changed[key] != nil {
			return token, true
		}
	}
	return token, false
}

package invariants

import (
	"github.com/oscarfed/oscarfed/store/record"
)

// Promise 9, for tokens: a refresh token goes to the coordinator's cluster and leaves
// the store no later than its holding ends; and an access token is asked for and given
// for a member of the federation only, for what it wants, sealed to the key that its
// own syncer reports.
func tokensStep(c *checker) {
	for _, ch := range c.changes {
		switch ch.ref.Kind {
		case record.KindHold:
			c.holds(ch, as[record.Hold](ch.old), as[record.Hold](ch.now))
		case record.KindTokenAsk:
			c.asksForMember(ch, as[record.TokenAsk](ch.now))
		case record.KindGrant:
			c.grantsMember(ch, as[record.Grant](ch.now))
		default:
		}
	}
}

func (c *checker) holds(ch *change, old, now *record.Hold) {
	f := c.federation(ch.ref.Name)
	switch {
	case now == nil:
		if old == nil || c.cleared(ch.ref.Cluster) || c.now(record.ClusterKey(ch.ref.Cluster)) == nil {
			return
		}
		report := as[record.Holding](c.before(record.HoldingKey(ch.ref.Cluster, ch.ref.Name)))
		if old.Order == record.HoldKeep || !report.Settles(old) {
			c.violatef(RuleSecrets, ch.key, "the order %s is gone, and its holder has not carried it out", old.Order)
		}
		return
	case now.Order == record.HoldKeep && now.Refresh != "":
		if f == nil || f.Coordinator() == nil || f.Coordinator().ClusterID != ch.ref.Cluster {
			c.violatef(RuleSecrets, ch.key, "a refresh token is sent to a cluster that is not the coordinator's")
		}
	case now.Order != record.HoldKeep && now.Refresh != "":
		c.violatef(RuleSecrets, ch.key, "a refresh token is kept in the store, and its holding ends")
	}
	if old == nil || now.Serial == old.Serial && now.Order == old.Order {
		return
	}
	switch {
	case now.Serial <= old.Serial:
		c.violatef(RuleSecrets, ch.key, "order %d follows order %d", now.Serial, old.Serial)
	case now.Order == record.HoldRevoke && f != nil && f.Phase.InFlight():
		c.violatef(RuleSecrets, ch.key, "the token of a creation under way is revoked")
	}
}

// isMember says whether a cluster has a replica in a federation at this revision.
func (c *checker) isMember(federation, cluster string) bool {
	f := c.federation(federation)
	if f == nil {
		return false
	}
	for _, m := range replicasOf(f) {
		if m.ClusterID == cluster {
			return true
		}
	}
	return false
}

func (c *checker) asksForMember(ch *change, ask *record.TokenAsk) {
	if ask == nil {
		return
	}
	member := ch.ref.Rest
	want := as[record.Want](c.now(record.WantKey(member, ch.ref.Name)))
	reports := as[record.ObservedCluster](c.now(record.ObservedClusterKey(member)))
	switch {
	case !c.isMember(ch.ref.Name, member):
		c.violatef(RuleSecrets, ch.key, "a token is asked for %s, which is no member of federation %s", member, ch.ref.Name)
	case want == nil || want.Nonce != ask.Nonce:
		c.violatef(RuleSecrets, ch.key, "a token is asked for %s, which does not want it", member)
	case reports == nil || reports.Recipient != ask.Recipient:
		c.violatef(RuleSecrets, ch.key, "a token is asked for %s, sealed to a key that it does not report", member)
	}
}

func (c *checker) grantsMember(ch *change, grant *record.Grant) {
	if grant == nil {
		return
	}
	want := as[record.Want](c.now(record.WantKey(ch.ref.Cluster, ch.ref.Name)))
	switch {
	case want == nil || want.Nonce != grant.Nonce:
		c.violatef(RuleSecrets, ch.key, "it answers what the cluster does not want")
	case grant.Access != "" && !c.isMember(ch.ref.Name, ch.ref.Cluster):
		c.violatef(RuleSecrets, ch.key, "a token is given to %s, which is no member of federation %s", ch.ref.Cluster, ch.ref.Name)
	}
}

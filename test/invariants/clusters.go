package invariants

import (
	"slices"

	"github.com/oscarfed/oscarfed/store/record"
)

// A cluster is removed by an order that stands in its registration; the registration
// goes when no federation has a member there, and without force when nothing is
// desired there. Nothing is placed on a cluster that is being removed. Another
// registration under the same id is another cluster: it begins with nothing of what
// was desired or reported before.
func clustersStep(c *checker) {
	for _, ch := range c.changes {
		switch ch.ref.Kind {
		case record.KindCluster:
			c.registrationMoves(ch, as[record.Cluster](ch.old), as[record.Cluster](ch.now))
		case record.KindFederation:
			c.placesNothing(ch, as[record.Federation](ch.old), as[record.Federation](ch.now))
		case record.KindDesiredService:
			c.keeps(ch, as[record.Desired](ch.now))
		default:
		}
	}
}

// cleared says whether this revision takes everything away that stood below the
// prefix of a cluster: one that was registered no more is forgotten, another one has
// its id from now on, or one that was revoked is readmitted and begins anew.
func (c *checker) cleared(cluster string) bool {
	key := record.DesiredClusterKey(cluster)
	if old, now := as[record.Cluster](c.before(record.ClusterKey(cluster))), as[record.Cluster](c.now(record.ClusterKey(cluster))); old != nil && now != nil &&
		old.Revoked != nil && now.Revoked == nil && c.changed[key] != nil {
		return true
	}
	if ch := c.changed[key]; ch == nil || c.before(record.ClusterKey(cluster)) != nil && c.now(record.ClusterKey(cluster)) != nil {
		return false
	}
	was, now := as[record.DesiredCluster](c.before(key)), as[record.DesiredCluster](c.now(key))
	switch {
	case now != nil:
		return c.before(record.ClusterKey(cluster)) == nil && (was == nil || was.UID != now.UID)
	case was != nil:
		return c.now(record.ClusterKey(cluster)) == nil
	}
	return false
}

// outlived says whether a service has outlived its cluster's registration, and is reported by the next one: a
// person may make it a member again.
func (c *checker) outlived(ref record.Ref, uid string) bool {
	l := c.past.lives[uid]
	return l != nil && l.cleared && c.wasOrphan(ref, uid)
}

func (c *checker) registrationMoves(ch *change, old, now *record.Cluster) {
	id := ch.ref.Cluster
	switch {
	case old == nil && now != nil:
		c.beginsWithNothing(ch, now)
	case old != nil && now == nil:
		switch {
		case old.Removal == nil:
			c.violatef(RuleClusters, ch.key, "the registration is gone, and nobody ordered that")
		case !old.Removal.Force && c.anything(record.DesiredServicesPrefix(id)) != "":
			c.violatef(RuleClusters, ch.key, "the registration is gone without force, and %s is still desired", c.anything(record.DesiredServicesPrefix(id)))
		}
	case old != nil && now != nil:
		if old.UID != now.UID {
			c.violatef(RuleClusters, ch.key, "its uid has changed within one registration")
		}
		if old.Removal != nil && (now.Removal == nil || old.Removal.Force && !now.Removal.Force || old.Removal.Orphan != now.Removal.Orphan) {
			c.violatef(RuleClusters, ch.key, "the order to remove it was taken back")
		}
	}
	if now == nil {
		return
	}
	if now.Removal == nil && (now.Revoked != nil) != (now.State == record.ClusterRevoked) {
		c.violatef(RuleClusters, ch.key, "it is %s, and its revocation is %v", now.State, now.Revoked)
	}
	if old != nil && old.Revoked != nil && now.Revoked == nil && c.anything(record.ObservedPrefix(id)) != "" {
		c.violatef(RuleClusters, ch.key, "it is readmitted, and %s is still what it reported before", c.anything(record.ObservedPrefix(id)))
	}
	if (now.Removal != nil) != (now.State == record.ClusterRemoving) {
		c.violatef(RuleClusters, ch.key, "it is %s, and its order of removal is %v", now.State, now.Removal)
	}
	if d := as[record.DesiredCluster](c.now(record.DesiredClusterKey(id))); d == nil || d.UID != now.UID || d.State != now.State {
		c.violatef(RuleClusters, ch.key, "its syncer is not told that it is %s with uid %s", now.State, now.UID)
	}
}

func (c *checker) beginsWithNothing(ch *change, now *record.Cluster) {
	if c.past.clusters[now.UID] {
		c.violatef(RuleClusters, ch.key, "uid %s was registered before: another registration is another cluster", now.UID)
	}
	for _, prefix := range []string{
		record.DesiredServicesPrefix(ch.ref.Cluster), record.SpecsPrefix(ch.ref.Cluster), record.TokensPrefix(ch.ref.Cluster),
		record.ObservedPrefix(ch.ref.Cluster),
	} {
		if key := c.anything(prefix); key != "" {
			c.violatef(RuleClusters, key, "it is of another cluster than the one that is registered now")
		}
	}
}

// anything names a key below a prefix; empty when there is none.
func (c *checker) anything(prefix string) string {
	found := ""
	for key := range c.keys {
		if len(key) > len(prefix) && key[:len(prefix)] == prefix && (found == "" || key < found) {
			found = key
		}
	}
	return found
}

// placesNothing: a federation gets no replica on a cluster that is being removed, or
// was revoked.
func (c *checker) placesNothing(ch *change, old, now *record.Federation) {
	if now == nil || now.Phase.Result() {
		return
	}
	for _, m := range replicasOf(now) {
		reg := as[record.Cluster](c.before(record.ClusterKey(m.ClusterID)))
		if reg == nil || reg.Removal == nil && reg.Revoked == nil {
			continue
		}
		if old == nil || !slices.ContainsFunc(replicasOf(old), func(o record.Member) bool { return o.UID == m.UID }) {
			c.violatef(RuleClusters, ch.key, "it gets %s on a cluster that is %s", placeOf(m), map[bool]string{true: "being removed", false: "revoked"}[reg.Removal != nil])
		}
	}
}

// keeps: a service is given free only by the order that removes its cluster.
func (c *checker) keeps(ch *change, d *record.Desired) {
	if d == nil || d.Keep == "" {
		return
	}
	old := as[record.Desired](ch.old)
	reg := as[record.Cluster](c.before(record.ClusterKey(ch.ref.Cluster)))
	switch {
	case d.Keep != record.KeepRelease:
		c.violatef(RuleClusters, ch.key, "the order keep=%q is unknown", d.Keep)
	case !d.Tombstone() || d.Cause != record.CauseRemoved:
		c.violatef(RuleClusters, ch.key, "a service is given free by a record with intent %s, cause %q", d.Intent, d.Cause)
	case d.Data != "":
		c.violatef(RuleClusters, ch.key, "a service is given free, and its data deleted")
	case old != nil && old.Keep == d.Keep:
	case reg == nil || reg.Removal == nil || !reg.Removal.Orphan:
		c.violatef(RuleClusters, ch.key, "a service is given free, which no removal of its cluster orders")
	}
}

// clustersStand: no federation names a cluster that is not registered, unless all
// that is left of it is an end that waits.
func clustersStand(c *checker, uid string, f, _ *record.Federation) {
	if f == nil {
		return
	}
	switch f.Phase {
	case record.PhasePreparing, record.PhaseApplying, record.PhaseReady:
	default:
		return
	}
	for _, m := range slices.Concat(replicasOf(f), f.Leaving) {
		if c.now(record.ClusterKey(m.ClusterID)) == nil {
			c.violatef(RuleClusters, record.FederationKey(uid), "it is %s and has %s on a cluster that is not registered", f.Phase, placeOf(m))
		}
	}
}

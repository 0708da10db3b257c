package invariants

import "github.com/oscarfed/oscarfed/store/record"

// endedByDeletion is the code of a creation that its owner has ended.
const endedByDeletion = "conflict"

// A rollback is over when every tombstone was acknowledged, by every cluster that can: one
// whose deletion failed, or whose cluster is away, is waited for no longer. A deletion of the
// service, which begins a rollback or meets one, waits only for as long as its caller says.
func rollbackStep(c *checker) {
	for _, ch := range c.changes {
		was, now := as[record.Federation](ch.old), as[record.Federation](ch.now)
		if was == nil || now == nil || was.Phase != record.PhaseRollingBack || now.Phase != record.PhaseRolledBack {
			continue
		}
		if was.Code == endedByDeletion || now.RequestID != was.RequestID {
			continue
		}
		for _, m := range replicasOf(now) {
			c.waitedFor(ch, m)
		}
	}
}

// waitedFor: a replica whose cluster, session and report have not changed since the last step of
// the rollback was seen as they stand now.
func (c *checker) waitedFor(ch *change, m record.Member) {
	at, last := placeOf(m), ch.old.revision()
	desired := c.before(at.desiredKey())
	d := as[record.Desired](desired)
	if d == nil || d.UID != m.UID || c.past.lives[m.UID].deleted == desired.revision() {
		return
	}
	session, self := c.before(record.SessionKey(at.cluster)), c.before(record.ObservedClusterKey(at.cluster))
	registered, report := c.before(record.ClusterKey(at.cluster)), c.before(at.observedKey())
	if session == nil || max(session.revision(), self.revision(), registered.revision(), report.revision()) > last {
		return
	}
	if o := as[record.Observed](report); o != nil && o.UID == m.UID && o.DesiredRevision == desired.revision() {
		return // it failed, or is held
	}
	reg, oc := as[record.Cluster](registered), as[record.ObservedCluster](self)
	if reg == nil || reg.State != record.ClusterActive || oc == nil || oc.Reason != "" {
		return
	}
	c.violatef(RuleAbsence, ch.key, "it is rolled back, and the tombstone of replica %s on cluster %s was not waited for", m.UID, at.cluster)
}

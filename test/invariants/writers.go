package invariants

import (
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
)

// Promise 4: one kind of writer per record. Below c/<cluster>/observed/ and at
// c/<cluster>/session only that cluster's syncer writes, everything else only the
// control plane. The keys of a revision tell its writer: a transaction is the
// work of one. The control plane may delete an observed record, in the
// transaction that deletes its desired record, and a report that a refresh token was
// read in the one that enters it into the audit.
func writersStep(c *checker) {
	for _, ch := range c.changes {
		cluster, rest, ok := syncersKey(ch.key)
		if !ok {
			continue
		}
		c.fenced(ch, cluster)
		if free := as[record.Capacity](ch.now); free != nil {
			if session := c.before(record.SessionKey(cluster)).revision(); free.Session != session {
				c.violatef(RuleWriters, ch.key, "it says that it was written in the session of revision %d, and that of cluster %s is of %d", free.Session, cluster, session)
			}
		}
		other := c.foreignTo(cluster)
		if other == "" {
			continue
		}
		observed, isReport := strings.CutPrefix(rest, "observed/")
		if name, isAnswer := strings.CutPrefix(observed, "shown/"); isAnswer {
			observed = "asks/" + name // an answer goes with its question
		}
		if ch.ref.Kind == record.KindOfferedEvent {
			observed = "offers/" + ch.ref.Name // and an event with the offer
		}
		if ch.now == nil && isReport && (c.deletes(record.DesiredPrefix(cluster)+observed) || c.cleared(cluster)) {
			continue
		}
		if ch.now == nil && ch.ref.Kind == record.KindReading && c.audits() {
			continue
		}
		if r := as[record.JobReport](ch.old); ch.now == nil && r != nil && r.Found && c.changed[record.JobKey(ch.ref.Name)] != nil {
			continue // no assignment asked for it: its job was made to know it
		}
		c.violatef(RuleWriters, ch.key, "it was written together with %s, which is not for the syncer of %s to write", strings.TrimPrefix(other, record.Root), cluster)
	}
}

// fenced: a report about a service or a job is written in the session of its syncer.
func (c *checker) fenced(ch *change, cluster string) {
	report := ch.ref.Kind == record.KindObservedService || ch.ref.Kind == record.KindJobReport
	if ch.now == nil || !report || !c.opts.Fenced {
		return
	}
	session := c.before(record.SessionKey(cluster))
	if session == nil {
		c.violatef(RuleWriters, ch.key, "it was written while cluster %s had no session", cluster)
		return
	}
	if r := as[record.JobReport](ch.now); r != nil && r.State == record.JobClaimed && r.Session != session.revision() {
		c.violatef(RuleWriters, ch.key, "it says that it was written in the session of revision %d, and that of cluster %s is of %d", r.Session, cluster, session.revision())
	}
}

// syncersKey takes a key apart that only a syncer may write.
func syncersKey(key string) (cluster, rest string, ok bool) {
	tree, ok := strings.CutPrefix(key, record.ClusterTreePrefix)
	if !ok {
		return "", "", false
	}
	cluster, rest, _ = strings.Cut(tree, "/")
	return cluster, rest, rest == "session" || strings.HasPrefix(rest, "observed/")
}

// foreignTo names a key of this revision that the syncer of a cluster may not write.
func (c *checker) foreignTo(cluster string) string {
	for _, ch := range c.changes {
		if of, _, ok := syncersKey(ch.key); !ok || of != cluster {
			return ch.key
		}
	}
	return ""
}

// audits says whether this revision adds to the audit.
func (c *checker) audits() bool {
	return slices.ContainsFunc(c.changes, func(ch *change) bool { return ch.ref.Kind == record.KindAudit && ch.now != nil })
}

// auditStep: an entry of the audit is never changed.
func auditStep(c *checker) {
	for _, ch := range c.changes {
		if ch.ref.Kind == record.KindAudit && ch.old != nil && ch.now != nil {
			c.violatef(RuleWriters, ch.key, "an entry of the audit was changed")
		}
	}
}

// deletes says whether this revision deleted a key.
func (c *checker) deletes(key string) bool {
	ch := c.changed[key]
	return ch != nil && ch.now == nil
}

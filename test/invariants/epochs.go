package invariants

import (
	"slices"

	"github.com/oscarfed/oscarfed/store/record"
)

// Promise 5, across a restore: an epoch is one history of the store. It changes once
// for each restore, in a record that remembers the ones before; a generation is of
// the epoch that was present when it was written; and what is desired never forgets
// at which generation of an older epoch it was, since that tells the services that it
// may overwrite from those that it may not.
func epochsStep(c *checker) {
	for _, ch := range c.changes {
		switch ch.ref.Kind {
		case record.KindMeta:
			c.metaMoves(ch, as[record.Meta](ch.old), as[record.Meta](ch.now))
		case record.KindDesiredCluster:
			c.clusterIsTold(ch, as[record.DesiredCluster](ch.old), as[record.DesiredCluster](ch.now))
		case record.KindFederation:
			c.beginsNow(ch, as[record.Federation](ch.old), as[record.Federation](ch.now))
		case record.KindDesiredService:
			c.branches(ch, as[record.Desired](ch.old), as[record.Desired](ch.now))
		default:
		}
	}
}

// present is the epoch as records name it.
func (c *checker) present() string {
	if m := as[record.Meta](c.now(record.MetaKey)); m != nil {
		return m.Word()
	}
	return ""
}

func (c *checker) metaMoves(ch *change, old, now *record.Meta) {
	switch {
	case now == nil:
		c.violatef(RuleEpochs, ch.key, "it is gone")
	case old == nil:
	case now.ControlPlane != old.ControlPlane || now.Recipient != old.Recipient:
		c.violatef(RuleEpochs, ch.key, "control plane %s of %s became %s of %s", old.ControlPlane, old.Recipient, now.ControlPlane, now.Recipient)
	case now.Epoch == old.Epoch:
		if !slices.Equal(now.Epochs, old.Epochs) || now.Word() != old.Word() {
			c.violatef(RuleEpochs, ch.key, "the past was changed within epoch %s", now.Epoch)
		}
	case now.RestoredAt == nil || len(now.Epochs) == 0 || now.Epochs[len(now.Epochs)-1] != old.Epoch:
		c.violatef(RuleEpochs, ch.key, "epoch %s follows %s and does not remember it", now.Epoch, old.Epoch)
	case slices.Contains(old.Epochs, now.Epoch):
		c.violatef(RuleEpochs, ch.key, "epoch %s comes a second time", now.Epoch)
	}
}

// clusterIsTold: a cluster is never told an epoch that is not, or no longer, present.
func (c *checker) clusterIsTold(ch *change, old, now *record.DesiredCluster) {
	meta := as[record.Meta](c.now(record.MetaKey))
	if now == nil || meta == nil || old != nil && old.Epoch == now.Epoch && old.Word() == now.Word() {
		return
	}
	if now.Epoch != meta.Epoch || now.Word() != meta.Word() {
		c.violatef(RuleEpochs, ch.key, "it is told epoch %q, present is %q", now.Word(), meta.Word())
	}
}

// beginsNow: a federation begins in the present epoch, and one that comes back after a restore in that of its
// orphans.
func (c *checker) beginsNow(ch *change, old, now *record.Federation) {
	if old == nil && now != nil && now.Epoch != c.present() && !c.comesBack(now) {
		c.violatef(RuleEpochs, ch.key, "it begins in epoch %q, present is %q", now.Epoch, c.present())
	}
}

func (c *checker) branches(ch *change, old, now *record.Desired) {
	if now == nil || old == nil || old.UID != now.UID {
		return
	}
	if old.Epoch != now.Epoch {
		switch {
		case now.Epoch != c.present():
			c.violatef(RuleEpochs, ch.key, "generation %d is of epoch %q, present is %q", now.Generation, now.Epoch, c.present())
		case now.Generation <= old.Generation:
			c.violatef(RuleEpochs, ch.key, "it went from epoch %q to %q within generation %d", old.Epoch, now.Epoch, now.Generation)
		}
	} else if old.Generation < now.Generation && now.Epoch != c.present() && !c.takesAhead(ch, now) {
		c.violatef(RuleEpochs, ch.key, "generation %d is of epoch %q, present is %q", now.Generation, now.Epoch, c.present())
	}
	if old.Epoch != now.Epoch && !now.Covers(old.Epoch, old.Generation) {
		c.violatef(RuleEpochs, ch.key, "it does not know any more that it was at generation %d of epoch %q", old.Generation, old.Epoch)
	}
	for _, b := range old.Past {
		if !now.Covers(b.Epoch, b.Generation) {
			c.violatef(RuleEpochs, ch.key, "it does not know any more that generation %d of epoch %q is past", b.Generation, b.Epoch)
		}
	}
}

// takesAhead says whether a deletion has come to what its cluster has reported to be ahead of it, in a
// history that was lost: a person may order that this goes, too.
func (c *checker) takesAhead(ch *change, now *record.Desired) bool {
	ref := record.ParseKey(ch.key)
	o := as[record.Observed](c.before(record.ObservedServiceKey(ref.Cluster, ref.Name)))
	return now.Tombstone() && o != nil && o.UID == now.UID && o.Held != nil && *o.Held == record.Held{
		Kind: record.HeldAhead, Epoch: now.Epoch, Generation: now.Generation,
	}
}

// wasOrphan says whether a cluster has reported a service of that life, of which the
// store knew nothing, at this place.
func (c *checker) wasOrphan(ref record.Ref, uid string) bool {
	self := as[record.ObservedCluster](c.before(record.ObservedClusterKey(ref.Cluster)))
	return self != nil && slices.ContainsFunc(self.Orphans, func(o record.Orphan) bool { return o.UID == uid && o.ServiceName == ref.Name })
}

// comesBack says whether a federation is made of orphans alone, after a restore or of what has outlived the
// registrations of its clusters.
func (c *checker) comesBack(f *record.Federation) bool {
	return c.present() != "" && c.madeOf(f, c.wasOrphan) || c.madeOf(f, c.outlived)
}

// madeOf says whether something is so of all replicas of a federation.
func (c *checker) madeOf(f *record.Federation, is func(at record.Ref, uid string) bool) bool {
	return !slices.ContainsFunc(replicasOf(f), func(m record.Member) bool {
		return !is(record.Ref{Cluster: m.ClusterID, Name: m.ServiceName}, m.UID)
	})
}

package invariants

import (
	"maps"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
)

// Promise 1: a federation and its replicas appear, change and turn into tombstones
// in one transaction. No reader at any revision sees a part of a graph.

// atomicStep: a transaction that touches a desired record also writes, or deletes,
// the record of its federation; for an orphan's tombstone its deleted/<uid>.
func atomicStep(c *checker) {
	for _, ch := range c.changes {
		if ch.ref.Kind != record.KindDesiredService {
			continue
		}
		for _, d := range []*record.Desired{as[record.Desired](ch.old), as[record.Desired](ch.now)} {
			if d == nil || c.changed[record.FederationKey(d.Federation)] != nil {
				continue
			}
			if d.Tombstone() && c.changed[record.DeletedKey(d.UID)] != nil && c.federation(d.Federation) == nil {
				continue
			}
			if d.Tombstone() && ch.now == nil && c.cleared(ch.ref.Cluster) {
				continue
			}
			c.violatef(RuleAtomic, ch.key, "it was touched by revision %d, which does not write federation %s", c.revision, d.Federation)
		}
	}
}

func atomicStands(c *checker, uid string, f, was *record.Federation) {
	c.strays(uid, f)
	c.nameMatches(uid, f, was)
	if f == nil {
		for _, m := range membersOf(was) {
			if key := record.TokensKey(m.ClusterID, uid); c.now(key) != nil {
				c.violatef(RuleSecrets, key, "the owner's access token is kept although federation %s is gone", uid)
			}
		}
		return
	}
	c.submittedIsKept(f, f.Generation, mustExist(f.Phase))
	for _, m := range f.Members {
		if m.Replica() {
			c.replicaMatches(f, m)
			c.noAccess(f, m)
		}
	}
	if f.Change != nil {
		c.changeIsWhole(f)
	}
	for _, m := range f.Leaving {
		d := c.desired(placeOf(m), m.UID)
		switch {
		case d == nil && mustExist(f.Phase):
			c.violatef(RuleAtomic, placeOf(m).desiredKey(), "replica %s leaves federation %s and has no tombstone", m.UID, uid)
		case d != nil && !d.Tombstone():
			c.violatef(RuleAtomic, placeOf(m).desiredKey(), "replica %s leaves federation %s and has intent %s", m.UID, uid, d.Intent)
		}
	}
}

// submittedIsKept: the service as it was submitted for a generation is in the store,
// and so are its secrets, sealed, as long as they can be of use.
func (c *checker) submittedIsKept(f *record.Federation, generation int64, secrets bool) {
	key := record.FederationKey(f.UID)
	if c.now(record.HistoryKey(f.UID, generation)) == nil {
		c.violatef(RuleAtomic, key, "the submitted service of generation %d is not in history", generation)
	}
	switch e := c.now(record.SecretsKey(f.UID, generation)); {
	case secrets && e == nil:
		c.violatef(RuleAtomic, key, "the submitted secrets of generation %d are not in the store", generation)
	case !secrets && e != nil:
		c.violatef(RuleAtomic, e.kv.Key, "the submitted secrets are kept although federation %s is %s", f.UID, f.Phase)
	case as[record.Secrets](e) != nil:
		c.partsAreThere(f.UID, e.kv.Key, as[record.Secrets](e).Parts...)
	}
	for g := int64(1); g <= generation; g++ {
		if h := as[record.History](c.now(record.HistoryKey(f.UID, g))); h != nil {
			c.partsAreThere(f.UID, record.HistoryKey(f.UID, g), h.Parts...)
		}
	}
}

// noAccess: the transaction that ends a federation takes its owner's tokens away from each cluster where nothing of it is
// to end yet. A request of his that crosses it may still bring one, which expires.
func (c *checker) noAccess(f *record.Federation, m record.Member) {
	key := record.TokensKey(m.ClusterID, f.UID)
	for _, one := range membersOf(f) {
		d := as[record.Desired](c.now(record.DesiredServiceKey(one.ClusterID, one.ServiceName)))
		if one.ClusterID == m.ClusterID && d != nil && d.Federation == f.UID && d.Tombstone() {
			return
		}
	}
	if !mustExist(f.Phase) && c.changed[record.FederationKey(f.UID)] != nil && c.now(key) != nil {
		c.violatef(RuleSecrets, key, "the owner's access token is kept although federation %s is %s", f.UID, f.Phase)
	}
}

func membersOf(f *record.Federation) []record.Member {
	if f == nil {
		return nil
	}
	return slices.Concat(f.Members, f.Leaving)
}

// changeIsWhole: a change that waits for votes has asked everybody whom it adds, and
// has at hand what it will ask of the others.
func (c *checker) changeIsWhole(f *record.Federation) {
	key := record.FederationKey(f.UID)
	if f.Phase != record.PhaseReady {
		c.violatef(RuleAtomic, key, "it is %s and has a pending change", f.Phase)
	}
	if len(added(f)) == 0 {
		c.violatef(RuleAtomic, key, "its change waits for votes and adds nobody")
	}
	c.submittedIsKept(f, f.Generation+1, true)
	for _, m := range f.Change.Members {
		if !m.Replica() {
			continue
		}
		d := c.desired(placeOf(m), m.UID)
		if slices.ContainsFunc(added(f), func(o record.Member) bool { return o.UID == m.UID }) {
			if d == nil || d.Intent != record.IntentPrepare {
				c.violatef(RuleAtomic, placeOf(m).desiredKey(), "federation %s waits for the vote of replica %s, which is not asked for it", f.UID, m.UID)
				continue
			}
			c.isOf(f, m, d, f.Generation+1)
			continue
		}
		spec, ok := f.Change.Specs[m.UID]
		if !ok || c.now(record.SpecKey(m.ClusterID, spec)) == nil {
			c.violatef(RuleAtomic, key, "the spec %q that its change has for replica %s is not in the store", spec, m.UID)
		}
	}
}

// strays looks for desired records that speak of a federation which does not know
// them.
func (c *checker) strays(uid string, f *record.Federation) {
	known := map[string]string{}
	if f != nil {
		for _, m := range slices.Concat(replicasOf(f), f.Leaving) {
			known[placeOf(m).desiredKey()] = m.UID
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.desiredOf[uid])) {
		e := c.now(key)
		d := as[record.Desired](e)
		switch {
		case d == nil || known[key] == d.UID:
		case c.orphan(e.ref, d):
		case f == nil:
			c.violatef(RuleAtomic, key, "its federation %s does not exist", uid)
		default:
			c.violatef(RuleAtomic, key, "federation %s has no such member with uid %s", uid, d.UID)
		}
	}
}

// orphan says whether a desired record may stand alone: a tombstone for a service
// that was found although its deletion was acknowledged, or one that waits on a
// cluster which is registered no more, or is being removed by force.
func (c *checker) orphan(ref record.Ref, d *record.Desired) bool {
	reg := as[record.Cluster](c.now(record.ClusterKey(ref.Cluster)))
	return d.Tombstone() && (c.now(record.DeletedKey(d.UID)) != nil || reg == nil || reg.Removal != nil && reg.Removal.Force)
}

// nameMatches: names/<owner>/<group_id> points to the federation that holds the
// name, and to nothing else.
func (c *checker) nameMatches(uid string, f, was *record.Federation) {
	if f == nil {
		if was == nil {
			c.noNameOf(uid)
			return
		}
		key := record.NameKey(was.Owner, was.GroupID)
		if n := as[record.Name](c.now(key)); n != nil && n.UID == uid {
			c.violatef(RuleAtomic, key, "it points to federation %s, which was removed", uid)
		}
		return
	}
	key := record.NameKey(f.Owner, f.GroupID)
	n := as[record.Name](c.now(key))
	switch {
	case holdsName(f.Phase) && n == nil:
		c.violatef(RuleAtomic, key, "federation %s is %s and its name is not held", uid, f.Phase)
	case holdsName(f.Phase) && n.UID != uid:
		c.violatef(RuleAtomic, key, "it points to federation %s, but %s is %s under this name", n.UID, uid, f.Phase)
	case !holdsName(f.Phase) && n != nil && n.UID == uid:
		c.violatef(RuleAtomic, key, "federation %s is %s and still holds the name", uid, f.Phase)
	}
}

// noNameOf looks for a name that points to a federation which is not there.
func (c *checker) noNameOf(uid string) {
	for key := range c.namesOf[uid] {
		c.violatef(RuleAtomic, key, "it points to federation %s, which does not exist", uid)
	}
}

// replicaMatches: what is desired of a replica agrees with the phase of its
// federation, at each revision.
func (c *checker) replicaMatches(f *record.Federation, m record.Member) {
	key := placeOf(m).desiredKey()
	d := c.desired(placeOf(m), m.UID)
	if d == nil {
		if mustExist(f.Phase) {
			c.violatef(RuleAtomic, key, "federation %s is %s and replica %s has no desired record", f.UID, f.Phase, m.UID)
		}
		return
	}
	// What was refused after a restore may have been made in the history that was lost, and is ordered away: it was
	// an orphan when that was written.
	stood := as[record.Desired](c.before(key))
	former := f.Phase == record.PhaseAborted && d.Tombstone() &&
		(c.wasOrphan(record.ParseKey(key), m.UID) || stood != nil && stood.UID == m.UID && stood.Tombstone())
	if !intended(f, d.Intent) && !former {
		c.violatef(RuleAtomic, key, "federation %s is %s (%s) and replica %s has intent %s", f.UID, f.Phase, f.Deployment, m.UID, d.Intent)
	}
	c.isOf(f, m, d, f.Generation)
}

// isOf: a desired record belongs to its federation, and what it asks for is of the
// right life and generation.
func (c *checker) isOf(f *record.Federation, m record.Member, d *record.Desired, generation int64) {
	key := placeOf(m).desiredKey()
	if d.Federation != f.UID || d.Owner != f.Owner || d.GroupID != f.GroupID {
		c.violatef(RuleAtomic, key, "it names federation %s, owner %s, group_id %s; its federation is %s of %s, %s",
			d.Federation, d.Owner, d.GroupID, f.UID, f.Owner, f.GroupID)
	}
	if d.Tombstone() {
		return
	}
	if d.Generation != generation {
		c.violatef(RuleAtomic, key, "it has generation %d and its federation %d", d.Generation, generation)
	}
	switch {
	case !ofLife(d.Spec, record.SpecName(m.ServiceName, m.UID, d.Generation)):
		c.violatef(RuleAtomic, key, "its spec is %q, not that of uid %s and generation %d", d.Spec, m.UID, d.Generation)
	case c.now(placeOf(m).specKey(d)) == nil:
		c.violatef(RuleAtomic, key, "its spec %s is not in the store", d.Spec)
	default:
		if spec := as[record.Spec](c.now(placeOf(m).specKey(d))); spec != nil {
			c.partsAreThere(f.UID, placeOf(m).specKey(d), spec.Parts...)
		}
	}
}

// ofLife says whether a spec is of a life and generation. A change adds a word of
// its own behind them.
func ofLife(spec, name string) bool {
	return spec == name || strings.HasPrefix(spec, name+".")
}

// mustExist says whether each replica of a federation in a phase has a desired record.
func mustExist(p record.Phase) bool {
	return p == record.PhasePreparing || p == record.PhaseApplying || p == record.PhaseReady
}

// intended says which intents agree with the phase of a federation.
func intended(f *record.Federation, i record.Intent) bool {
	switch f.Phase {
	case record.PhasePreparing:
		return i == record.IntentPrepare
	case record.PhaseApplying:
		return i == record.IntentApply
	case record.PhaseReady:
		return i == record.IntentApply || i == record.IntentPrepare && f.Deployment == bestEffort
	case record.PhaseRollingBack, record.PhaseRolledBack, record.PhaseDeleting:
		return i == record.IntentDelete
	default:
		return false
	}
}

// bestEffort is the word for a deployment that goes as far as it can.
const bestEffort = "best-effort"

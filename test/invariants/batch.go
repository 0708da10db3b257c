package invariants

import (
	"maps"
	"slices"

	"github.com/oscarfed/oscarfed/store/record"
)

// batchStep: the federations of a batch appear in one revision, are applied in one, and end their
// creation in one: ready all, refused all, or rolled back all.
func batchStep(c *checker) {
	for _, ch := range c.changes {
		if ch.ref.Kind != record.KindFederation {
			continue
		}
		old, now := as[record.Federation](ch.old), as[record.Federation](ch.now)
		if now == nil || now.Batch == "" || !together(phaseOf(old)) || phaseOf(old) == now.Phase {
			continue
		}
		for _, uid := range slices.Sorted(maps.Keys(c.batches[now.Batch])) {
			key := record.FederationKey(uid)
			was, is := as[record.Federation](c.before(key)), as[record.Federation](c.now(key))
			if phaseOf(was) != phaseOf(old) || phaseOf(is) != now.Phase {
				c.violatef(RuleAtomic, key, "it went from %q to %q in the revision in which federation %s of its batch went from %q to %q",
					phaseOf(was), phaseOf(is), now.UID, phaseOf(old), now.Phase)
			}
		}
	}
}

// together says whether the federations of a batch leave a phase together. The empty one is that of
// a federation that is not there yet.
func together(p record.Phase) bool {
	return p == "" || p == record.PhasePreparing || p == record.PhaseApplying
}

func phaseOf(f *record.Federation) record.Phase {
	if f == nil {
		return ""
	}
	return f.Phase
}

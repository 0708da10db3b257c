package invariants_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/invariants"
)

func TestEpochs(t *testing.T) {
	t.Parallel()
	meta := func(change func(m *record.Meta)) func(*script, *federation) {
		return afterwards(func(x *txn, f *federation) { edit(x, record.MetaKey, change) })
	}
	told := func(change func(c *record.DesiredCluster)) func(*script, *federation) {
		return afterwards(func(x *txn, f *federation) { edit(x, record.DesiredClusterKey("b"), change) })
	}
	at := record.Time{}
	also := []invariants.Rule{invariants.RuleAtomic, invariants.RuleOurs}
	desired := func(change func(d *record.Desired)) func(*script, *federation) {
		return afterwards(func(x *txn, f *federation) { edit(x, f.at("b").desired(), change) })
	}
	run(t, invariants.RuleEpochs, []planted{
		{"an epoch that forgets the one before", meta(func(m *record.Meta) { m.Epoch, m.RestoredAt = "e1", &at }), "does not remember it", nil},
		{"an epoch that does not say when it began", meta(func(m *record.Meta) { m.Epochs, m.Epoch = []string{m.Epoch}, "e1" }), "does not remember it", nil},
		{"a past that is made up", meta(func(m *record.Meta) { m.Epochs = []string{"e-1"} }), "the past was changed", nil},
		{"another control plane", meta(func(m *record.Meta) { m.ControlPlane = "x" }), "became x", nil},
		{"a cluster that is told another epoch", told(func(c *record.DesiredCluster) { c.Epoch, c.RestoredAt = "e7", &at }), `told epoch "e7"`, nil},
		{"a federation that begins in an epoch that is over", spoil("create", func(x *txn, f *federation) {
			edit(x, record.FederationKey(f.uid), func(r *record.Federation) { r.Epoch = "e7" })
		}), `begins in epoch "e7"`, nil},
		{"a generation of an epoch that is not present", desired(func(d *record.Desired) { d.Advance("e7", 2) }), `of epoch "e7"`, also},
		{"a deletion of what no cluster has reported to be ahead", afterwards(func(x *txn, f *federation) {
			edit(x, record.MetaKey, func(m *record.Meta) { m.Epochs, m.Epoch, m.RestoredAt = []string{m.Epoch}, "e1", &at })
			edit(x, f.at("b").desired(), func(d *record.Desired) { d.Intent, d.Generation = record.IntentDelete, 2 })
		}), `generation 2 is of epoch ""`, []invariants.Rule{invariants.RuleAtomic, invariants.RuleAbsence}},
		{"an epoch that is left without its generation", desired(func(d *record.Desired) { d.Epoch, d.Generation = "e7", 2 }), "does not know any more", also},
	})
}

// orderedAwayStory: after a restore a creation is refused that was made in the history that was lost. What stands of it
// is told, and ordered away; the others' tombstones stand meanwhile.
func orderedAwayStory(f *federation, told ...string) {
	f.refusedStory()
	for _, c := range told {
		r := f.at(c)
		f.s.step("report "+c, func(x *txn) {
			x.put(record.ObservedClusterKey(c), record.ObservedCluster{V: 1, Orphans: []record.Orphan{{ServiceName: r.service, UID: r.uid, Generation: 1}}})
		})
	}
	for _, c := range []string{"b", "c"} {
		r := f.at(c)
		f.step("order away "+c, func(x *txn) {
			edit(x, f.key(), func(fed *record.Federation) { fed.Detail = "ordered away on " + c })
			x.put(r.desired(), record.Desired{
				V: 1, Intent: record.IntentDelete, Cause: record.CauseDeleted, Federation: f.uid, GroupID: f.group, UID: r.uid,
				Generation: 1, Owner: owner, Mark: record.Mark(r.token()),
			})
		})
		f.s.step("report "+c+" again", func(x *txn) { x.put(record.ObservedClusterKey(c), record.ObservedCluster{V: 1}) })
	}
}

func TestWhatALostHistoryHasMadeIsOrderedAway(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	orderedAwayStory(s.federation("f1", "one"), "b", "c")
	if report := check(t, s); report.Err() != nil {
		t.Errorf("%v", report.Violations)
	}
	s = newScript(t)
	orderedAwayStory(s.federation("f1", "one"), "b")
	if report := check(t, s); report.Err() == nil {
		t.Error("what nobody has told of may be ordered away")
	}
}

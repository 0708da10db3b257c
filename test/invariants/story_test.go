package invariants_test

import (
	"slices"

	"github.com/oscarfed/oscarfed/store/record"
)

func (f *federation) createdStory() *federation {
	f.create()
	f.vote(record.VoteYes, "a", "b", "c")
	f.commit("a", "b", "c")
	f.applied(record.PhaseReady, "a", "b", "c")
	f.ready()
	return f
}

func (f *federation) deletedStory() {
	f.bury(record.PhaseDeleting, record.CauseDeleted)
	f.acknowledge("a", "b", "c")
	f.forget("a", "b", "c")
}

func (f *federation) refusedStory() *federation {
	f.create()
	f.vote(record.VoteYes, "a")
	f.vote(record.VoteNo, "b")
	f.abort()
	return f
}

// rolledBackStory ends with c away, which acknowledges late.
func (f *federation) rolledBackStory() *federation {
	f.create()
	f.vote(record.VoteYes, "a", "b", "c")
	f.commit("a", "b", "c")
	f.applied(record.PhaseReady, "a")
	f.applied(record.PhaseFailed, "b")
	f.bury(record.PhaseRollingBack, record.CauseRollback)
	f.acknowledge("a", "b")
	f.s.step("c goes", func(x *txn) { x.remove(record.SessionKey("c")) })
	f.rolledBack("a", "b")
	f.s.step("c returns", func(x *txn) { x.put(record.SessionKey("c"), record.Session{V: 1, Instance: "c"}) })
	f.acknowledge("c")
	f.late("c", record.CauseRollback)
	f.forget()
	return f
}

func (f *federation) bestEffortStory() *federation {
	f.deployment = "best-effort"
	f.create()
	f.vote(record.VoteYes, "a", "c")
	f.vote(record.VoteNo, "b")
	f.commit("a", "c")
	f.applied(record.PhaseReady, "a", "c")
	return f
}

func (f *federation) joinedStory() *federation {
	f.bestEffortStory()
	f.vote(record.VoteYes, "b")
	f.join("b")
	f.applied(record.PhaseReady, "b")
	return f
}

// orphanStory: a service is found although its deletion was acknowledged.
func (f *federation) orphanStory(cluster string) {
	r := f.at(cluster)
	f.step("orphan", func(x *txn) {
		x.put(r.desired(), record.Desired{
			V: 1, Intent: record.IntentDelete, Cause: record.CauseDeleted, Federation: f.uid, GroupID: f.group, UID: r.uid,
			Generation: 1, Owner: owner, Mark: record.Mark(r.token()),
		})
		edit(x, r.deleted(), func(d *record.Deleted) { d.DeletedAt = clock })
	})
	f.acknowledge(cluster)
	f.step("orphan gone", func(x *txn) { f.takeBuried(x, r, record.CauseDeleted) })
}

// shrinkingStory: a change takes a member out, which is away for a while.
func (f *federation) shrinkingStory(cluster string) {
	f.createdStory()
	r := f.at(cluster)
	f.step("shrink", func(x *txn) {
		f.change(x, 2)
		f.replicas = slices.DeleteFunc(f.replicas, func(o replica) bool { return o == r })
		edit(x, f.key(), func(fed *record.Federation) {
			i := slices.IndexFunc(fed.Members, func(m record.Member) bool { return m.UID == r.uid })
			fed.Leaving = append(fed.Leaving, fed.Members[i])
			fed.Members = slices.Delete(fed.Members, i, i+1)
		})
		for i, left := range f.replicas {
			edit(x, left.desired(), func(d *record.Desired) { d.Sees = f.sees(i) })
		}
		edit(x, r.desired(), func(d *record.Desired) {
			d.Intent, d.Cause, d.Generation, d.Spec, d.Sees = record.IntentDelete, record.CauseRemoved, 1, "", nil
		})
	})
	f.replicas = append(f.replicas, r)
	f.acknowledge(cluster)
	f.step("left", func(x *txn) {
		edit(x, f.key(), func(fed *record.Federation) { fed.Leaving = nil })
		f.takeBuried(x, r, record.CauseRemoved)
	})
	f.replicas = slices.DeleteFunc(f.replicas, func(o replica) bool { return o == r })
}

// growingStory: a change adds a member, after one that was refused.
func (f *federation) growingStory(cluster string) {
	f.createdStory()
	r := f.propose(cluster, f.uid+"-refused", 2)
	f.vote(record.VoteNo, cluster)
	f.step("refuse", func(x *txn) {
		f.answer(x, record.PhaseReady)
		edit(x, f.key(), func(fed *record.Federation) { fed.Change = nil })
		f.take(x, r)
		x.remove(r.specOf(2))
		x.remove(record.HistoryKey(f.uid, 2))
		x.remove(record.SecretsKey(f.uid, 2))
		for _, kept := range f.replicas[:len(f.replicas)-1] {
			x.remove(kept.specOf(2))
		}
	})
	f.replicas = f.replicas[:len(f.replicas)-1]
	f.propose(cluster, f.uid+"-"+cluster, 2)
	f.vote(record.VoteYes, cluster)
	f.grow(2)
	f.applied(record.PhaseReady, cluster)
}

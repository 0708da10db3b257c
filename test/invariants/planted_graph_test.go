package invariants_test

import (
	"fmt"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/invariants"
)

func TestPromise0Records(t *testing.T) {
	t.Parallel()
	run(t, invariants.RuleRecords, []planted{
		{"no version", afterwards(func(x *txn, f *federation) { x.raw(record.RequestKey("x"), `{"uid":"f1"}`) }), "begins with", nil},
		{"another version", afterwards(func(x *txn, f *federation) { x.raw(record.RequestKey("x"), `{"v":2,"uid":"f1"}`) }), "begins with", nil},
		{"several lines", afterwards(func(x *txn, f *federation) { x.raw(record.RequestKey("x"), "{\"v\":1,\n\"uid\":\"f1\"}") }), "line breaks", nil},
		{"no JSON", afterwards(func(x *txn, f *federation) { x.raw(record.RequestKey("x"), `{"v":1,"uid":`) }), "not JSON", nil},
		{"another type", afterwards(func(x *txn, f *federation) { x.raw(record.RequestKey("x"), `{"v":1,"uid":7}`) }), "no request", nil},
	})
}

func TestPromise1AtomicGraph(t *testing.T) {
	t.Parallel()
	run(t, invariants.RuleAtomic, []planted{
		{"a replica is missing", func(s *script, f *federation) {
			s.on("f1 create", func(x *txn) { x.leave(f.at("b").desired()) })
			f.create()
			f.vote(record.VoteYes, "a", "c")
			f.commit("a", "c")
		}, "replica f1-b has no desired record", nil},
		{"a replica comes one revision later", func(s *script, f *federation) {
			s.on("f1 create", func(x *txn) {
				late := x.puts[f.at("c").desired()]
				x.leave(f.at("c").desired())
				s.keys[f.at("c").desired()] = written{value: late}
			})
			f.create()
			s.step("late", func(x *txn) {
				x.set(f.at("c").desired(), s.keys[f.at("c").desired()].value)
				edit(x, f.key(), func(fed *record.Federation) { fed.Detail = "complete" })
			})
			f.vote(record.VoteYes, "a")
		}, "replica f1-c has no desired record", nil},
		{"the federation comes later", func(s *script, f *federation) {
			s.on("f1 create", func(x *txn) {
				s.keys[f.key()] = written{value: x.puts[f.key()]}
				x.leave(f.key())
			})
			f.create()
			s.step("late", func(x *txn) { x.set(f.key(), s.keys[f.key()].value) })
		}, "does not exist", nil},
		{"half a commit", func(s *script, f *federation) {
			s.on("f1 commit", func(x *txn) { x.leave(f.at("c").desired()) })
			f.create()
			f.vote(record.VoteYes, "a", "b", "c")
			f.commit("a", "b", "c")
		}, "replica f1-c has intent prepare", nil},
		{"half a rollback", spoilRollback("bury", func(x *txn, f *federation) { x.leave(f.at("b").desired(), f.at("b").spec()) }),
			"replica f1-b has intent apply", []invariants.Rule{invariants.RuleStatus, invariants.RuleAbsence}},
		{"half an abort", func(s *script, f *federation) {
			s.on("f1 abort", func(x *txn) { x.leave(f.at("c").desired(), f.at("c").spec()) })
			f.refusedStory()
		}, "replica f1-c has intent prepare", nil},
		{"a tombstone for what was refused, which no cluster has reported", func(s *script, f *federation) {
			f.create()
			was := f.desiredOf(f.at("c"))
			f.vote(record.VoteNo, "b")
			f.abort()
			was.Intent, was.Cause, was.Spec, was.Deadline = record.IntentDelete, record.CauseRollback, "", nil
			s.step("tombstone", func(x *txn) { x.put(f.at("c").desired(), was) })
		}, "replica f1-c has intent delete", nil},
		{"a desired record is changed without its federation", afterwards(func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Paused = true })
		}), "does not write federation f1", nil},
		{"a tombstone is removed without its federation", func(s *script, f *federation) {
			f.createdStory()
			f.bury(record.PhaseDeleting, record.CauseDeleted)
			f.acknowledge("a", "b", "c")
			s.step("extra", func(x *txn) { f.takeBuried(x, f.at("a"), record.CauseDeleted) })
		}, "does not write federation f1", nil},
		{"a desired record without a federation", func(s *script, f *federation) {
			f.specs()
			s.step("extra", func(x *txn) {
				x.put(f.at("a").desired(), record.Desired{
					V: 1, Intent: record.IntentPrepare, Federation: "f1", UID: "f1-a", Generation: 1, Spec: "one0/f1-a.1",
					Mark: record.Mark(f.at("a").token()),
				})
			})
		}, "its federation f1 does not exist", nil},
		{"a desired record of a federation that has no such member", func(s *script, f *federation) {
			f.createdStory()
			other := s.federation("f2", "two")
			other.specs()
			s.step("extra", func(x *txn) {
				f.turn(x, record.PhaseReady)
				x.put(other.at("a").desired(), record.Desired{
					V: 1, Intent: record.IntentPrepare, Federation: "f1", UID: "f2-a", Generation: 1, Spec: "two0/f2-a.1",
					Mark: record.Mark(other.at("a").token()),
				})
			})
		}, "has no such member with uid f2-a", nil},
		{"the federation is forgotten before its tombstones", func(s *script, f *federation) {
			f.createdStory()
			f.bury(record.PhaseDeleting, record.CauseDeleted)
			f.forget()
		}, "its federation f1 does not exist", nil},
		{"an orphan's tombstone that nobody remembers", func(s *script, f *federation) {
			f.createdStory()
			f.deletedStory()
			s.on("f1 orphan", func(x *txn) { x.leave(f.at("b").deleted()) })
			f.orphanStory("b")
		}, "does not write federation f1", nil},
		{"the name is not taken", spoil("create", func(x *txn, f *federation) { x.leave(f.name()) }), "its name is not held", nil},
		{"the name is freed too early", afterwards(func(x *txn, f *federation) { x.remove(f.name()) }), "its name is not held", nil},
		{"the name is kept by a result", func(s *script, f *federation) {
			s.on("f1 abort", func(x *txn) { x.leave(f.name()) })
			f.refusedStory()
		}, "still holds the name", nil},
		{"the name is kept by a deletion", spoil("bury", func(x *txn, f *federation) { x.leave(f.name()) }), "still holds the name", nil},
		{"the name points to another one", func(s *script, f *federation) {
			f.createdStory()
			s.federation("f2", "two").createdStory()
			s.step("extra", func(x *txn) { x.put(f.name(), record.Name{V: 1, UID: "f2"}) })
		}, "but f1 is ready under this name", nil},
		{"the name points nowhere", func(s *script, _ *federation) {
			s.step("extra", func(x *txn) { x.put(record.NameKey(owner, "one"), record.Name{V: 1, UID: "f1"}) })
		}, "which does not exist", nil},
		{"the name outlives its federation", func(s *script, f *federation) {
			f.refusedStory()
			s.step("extra", func(x *txn) {
				x.remove(f.key())
				x.remove(f.history())
				x.put(f.name(), record.Name{V: 1, UID: "f1"})
			})
		}, "which was removed", nil},
		{"a spec is not there", spoil("specs", func(x *txn, f *federation) { x.leave(f.at("b").spec()) }), "its spec one1/f1-b.1 is not in the store", nil},
		{"a spec is swept while it is referenced", afterwards(func(x *txn, f *federation) { x.remove(f.at("b").spec()) }), "is not in the store", nil},
		{"the spec of another life", spoil("create", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Spec = "one1/f0-b.1" })
		}), "not that of uid f1-b", nil},
		{"the submitted service is not kept", spoil("specs", func(x *txn, f *federation) { x.leave(f.history()) }), "is not in history", nil},
		{"another owner", spoil("create", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Owner = "mallory" })
		}), "owner mallory", []invariants.Rule{invariants.RuleAbsence}},
		{"a replica is a generation ahead", func(s *script, f *federation) {
			s.on("f1 create", func(x *txn) {
				f.render(x, f.at("b"), 2)
				desired(x, f.at("b"), func(d *record.Desired) { d.Generation, d.Spec = 2, f.at("b").specName(2) })
			})
			f.create()
		}, "it has generation 2 and its federation 1", nil},
		{"the submitted secrets are not kept", spoil("specs", func(x *txn, f *federation) { x.leave(f.secrets()) }), "secrets of generation 1 are not in the store", nil},
		{"the submitted secrets outlive their use", spoil("bury", func(x *txn, f *federation) { x.leave(f.secrets()) }), "are kept although federation f1 is deleting", nil},
		{"a best-effort prepare in a transactional federation", func(s *script, f *federation) {
			s.on("f1 commit", func(x *txn) { edit(x, f.key(), func(fed *record.Federation) { fed.Deployment = "transactional" }) })
			f.bestEffortStory()
		}, "has intent prepare", []invariants.Rule{invariants.RuleStatus}},
	})
}

func TestPromise2UniquePlaces(t *testing.T) {
	t.Parallel()
	run(t, invariants.RuleUnique, []planted{
		{"a service in two federations", func(s *script, f *federation) {
			f.createdStory()
			other := s.federation("f2", "two")
			s.on("f2 create", func(x *txn) {
				edit(x, other.key(), func(fed *record.Federation) { fed.Members[1].ServiceName = "one1" })
			})
			other.create()
		}, "service b/one1 is held by federations f1 and f2", []invariants.Rule{invariants.RuleAtomic, invariants.RuleGraph}},
		{"a place twice in one federation", func(s *script, f *federation) {
			f.replicas[2] = replica{"b", "one1", "f1-c"}
			s.on("f1 create", func(x *txn) {})
			f.create()
		}, "b/one1 is a member twice", []invariants.Rule{invariants.RuleAtomic, invariants.RuleGraph}},
		{"a uid twice in one federation", func(_ *script, f *federation) {
			f.replicas[2].uid = "f1-b"
			f.create()
		}, "two members have uid f1-b", nil},
		{"a group_id twice for one owner", func(s *script, f *federation) {
			f.createdStory()
			other := s.federation("f2", "one")
			for i := range other.replicas {
				other.replicas[i].service = fmt.Sprintf("two%d", i)
			}
			other.create()
		}, "group_id one of cluster_admin is held by federations f1 and f2", []invariants.Rule{invariants.RuleAtomic}},
		{"a uid stands for another place", func(s *script, f *federation) {
			f.refusedStory().forget()
			other := s.federation("f2", "two")
			other.replicas[1].uid = "f1-b"
			other.create()
		}, "uid f1-b stands for b/two1, and stood for b/one1 before", nil},
		{"a uid is used again for the same place", func(s *script, f *federation) {
			f.refusedStory().forget()
			other := s.federation("f2", "one")
			other.replicas[1].uid = "f1-b"
			other.create()
		}, "uid f1-b is in federation f2, and was in f1 before", nil},
		{"a federation is back", func(s *script, f *federation) {
			f.refusedStory().forget()
			again := s.federation("f1", "one")
			for i := range again.replicas {
				again.replicas[i].uid += "-again"
			}
			again.create()
		}, "the federation was removed at revision", nil},
		{"a replica is back", func(s *script, f *federation) {
			f.create()
			s.step("extra", func(x *txn) {
				f.turn(x, record.PhasePreparing)
				x.remove(f.at("b").desired())
			})
			s.step("extra", func(x *txn) {
				f.turn(x, record.PhasePreparing)
				x.put(f.at("b").desired(), record.Desired{
					V: 1, Intent: record.IntentPrepare, Federation: "f1", GroupID: "one", UID: "f1-b", Generation: 1, Owner: owner,
					Spec: "one1/f1-b.1", Sees: f.sees(1), Mark: record.Mark(f.at("b").token()),
				})
			})
		}, "replica f1-b was removed and is back", []invariants.Rule{invariants.RuleAtomic}},
		{"a replica is back that its cluster has not reported", func(s *script, f *federation) {
			s.on("report c", func(x *txn) { x.put(record.ObservedClusterKey("c"), record.ObservedCluster{V: 1}) })
			outlivedStory(s, f)
		}, "replica f1-c was removed and is back", []invariants.Rule{invariants.RuleVotes}},
		{"a record under another uid", func(s *script, f *federation) {
			s.on("f1 create", func(x *txn) { edit(x, f.key(), func(fed *record.Federation) { fed.UID = "f2" }) })
			f.create()
		}, `the record has uid "f2"`, []invariants.Rule{invariants.RuleAtomic}},
		{"a desired record without a uid", func(s *script, f *federation) {
			s.on("f1 create", func(x *txn) { desired(x, f.at("b"), func(d *record.Desired) { d.UID = "" }) })
			f.create()
		}, "b/one1 has no uid", []invariants.Rule{invariants.RuleAtomic, invariants.RuleOurs}},
	})
}

func TestPromise3Topology(t *testing.T) {
	t.Parallel()
	sees := func(topology, cluster string, sees ...string) func(*script, *federation) {
		return func(s *script, f *federation) {
			f.topology = topology
			s.on("f1 create", func(x *txn) { desired(x, f.at(cluster), func(d *record.Desired) { d.Sees = sees }) })
			f.createdStory()
			f.deletedStory()
		}
	}
	fed := func(fn func(*record.Federation)) func(*script, *federation) {
		return spoil("create", func(x *txn, f *federation) { edit(x, f.key(), fn) })
	}
	run(t, invariants.RuleGraph, []planted{
		{"mesh: somebody is not seen", sees("mesh", "b", "a/one0"), "it lists [a/one0], the graph says [a/one0 c/one2]", nil},
		{"mesh: somebody sees itself", sees("mesh", "b", "a/one0", "b/one1", "c/one2"), "it lists itself", nil},
		{"mesh: a dangling member", sees("mesh", "b", "a/one0", "c/one2", "d/one3"), "d/one3", nil},
		{"mesh: somebody is seen twice", sees("mesh", "b", "a/one0", "c/one2", "c/one2"), "it lists c/one2 twice", nil},
		{"star: a worker sees the coordinator", sees("star", "b", "a/one0"), "the graph says []", nil},
		{"star: the coordinator does not see a worker", sees("star", "a", "b/one1"), "the graph says [b/one1 c/one2]", nil},
		{"tree: a worker sees a worker", sees("tree", "c", "b/one1"), "the graph says []", nil},
		{"none: the coordinator sees somebody", sees("none", "a", "b/one1"), "the graph says []", nil},
		{"one is to be stopped, and its federation is not", afterwards(func(x *txn, f *federation) {
			f.turn(x, record.PhaseReady)
			desired(x, f.at("b"), func(d *record.Desired) { d.RunState = record.RunStopped })
		}), `run state "" is ordered, and of b/one1 "stopped"`, nil},
		{"an unknown topology", fed(func(f *record.Federation) { f.Topology = "ring" }), `topology "ring" is unknown`, nil},
		{"no coordinator", fed(func(f *record.Federation) { f.Members[0].Coordinator = false }), "generation 1 has 0 coordinators", nil},
		{"two coordinators", fed(func(f *record.Federation) { f.Members[1].Coordinator = true }), "generation 1 has 2 coordinators", nil},
		{"a coordinator that is not deployed", fed(func(f *record.Federation) {
			f.Members[0].Coordinator = false
			f.Members = append(f.Members, record.Member{Type: "endpoint", URL: "https://x.example.org", Coordinator: true})
		}), "is no replica", nil},
	})
}

func TestPromise1Changes(t *testing.T) {
	t.Parallel()
	grow := func(step string, fn func(x *txn, f *federation)) func(*script, *federation) {
		return func(s *script, f *federation) {
			f.createdStory()
			s.on("f1 "+step, func(x *txn) { fn(x, f) })
			f.propose("d", "f1-d", 2)
			f.vote(record.VoteYes, "d")
			if step != "propose" && step != "change specs" {
				f.grow(2)
			}
		}
	}
	shrink := func(step string, fn func(x *txn, f *federation)) func(*script, *federation) {
		return func(s *script, f *federation) {
			s.on("f1 "+step, func(x *txn) { fn(x, f) })
			f.shrinkingStory("c")
		}
	}
	pending := func(x *txn, f *federation, fn func(*record.Change)) {
		edit(x, f.key(), func(fed *record.Federation) { fn(fed.Change) })
	}
	run(t, invariants.RuleAtomic, []planted{
		{"nobody asked the member that is waited for", func(s *script, f *federation) {
			f.createdStory()
			s.on("f1 propose", func(x *txn) { x.leave(f.at("d").desired()) })
			f.propose("d", "f1-d", 2)
		}, "waits for the vote of replica f1-d, which is not asked for it", nil},
		{"the asked member is of the present generation", func(s *script, f *federation) {
			f.createdStory()
			s.on("f1 propose", func(x *txn) {
				f.render(x, f.at("d"), 1)
				desired(x, f.at("d"), func(d *record.Desired) { d.Generation, d.Spec = 1, f.at("d").specName(1) })
			})
			f.propose("d", "f1-d", 2)
		}, "it has generation 1 and its federation 2", nil},
		{"a change that adds nobody waits", grow("propose", func(x *txn, f *federation) {
			pending(x, f, func(c *record.Change) { c.Members = c.Members[:3] })
		}), "adds nobody", nil},
		{"what the others will be asked is not there", grow("change specs", func(x *txn, f *federation) {
			x.leave(f.at("b").specOf(2))
		}), `for replica f1-b is not in the store`, nil},
		{"the next generation was not submitted", grow("propose", func(x *txn, f *federation) {
			x.leave(record.HistoryKey("f1", 2))
		}), "the submitted service of generation 2", nil},
		{"the secrets of the next generation are not there", grow("propose", func(x *txn, f *federation) {
			x.leave(record.SecretsKey("f1", 2))
		}), "secrets of generation 2", nil},
		{"one replica is left behind", grow("grow", func(x *txn, f *federation) { x.leave(f.at("b").desired()) }),
			"it has generation 1 and its federation 2", []invariants.Rule{invariants.RuleGraph}},
		{"the old secrets are all that is left", grow("grow", func(x *txn, f *federation) {
			x.remove(record.SecretsKey("f1", 2))
		}), "secrets of generation 2", nil},
		{"a deletion with a pending change", func(_ *script, f *federation) {
			f.createdStory()
			f.propose("d", "f1-d", 2)
			f.replicas = f.replicas[:3]
			f.bury(record.PhaseDeleting, record.CauseDeleted)
		}, "it is deleting and has a pending change", nil},
		{"a removed member is forgotten", shrink("shrink", func(x *txn, f *federation) {
			edit(x, f.key(), func(fed *record.Federation) { fed.Leaving = nil })
		}), "has no such member with uid f1-c", nil},
		{"a removed member keeps its apply", shrink("shrink", func(x *txn, f *federation) {
			x.leave(replica{"c", "one2", "f1-c"}.desired())
		}), "replica f1-c leaves federation f1 and has intent apply", []invariants.Rule{invariants.RuleAbsence, invariants.RuleStatus}},
		{"a member leaves that has no tombstone", shrink("left", func(x *txn, f *federation) {
			x.leave(f.key())
			edit(x, f.key(), func(fed *record.Federation) { fed.Detail = "left" })
		}),
			"replica f1-c leaves federation f1 and has no tombstone", nil},
	})
	run(t, invariants.RuleUnique, []planted{
		{"a change adds what another federation has", func(s *script, f *federation) {
			f.createdStory()
			other := s.federation("f2", "two").createdStory()
			s.on("f2 propose", func(x *txn) {
				x.leave(other.at("d").desired())
				pending(x, other, func(c *record.Change) { c.Members[3].ClusterID, c.Members[3].ServiceName = "b", "one1" })
			})
			other.propose("d", "f2-d", 2)
		}, "service b/one1 is held by federations f1 and f2", []invariants.Rule{invariants.RuleAtomic}},
		{"a change adds a second life at a place", func(s *script, f *federation) {
			f.createdStory()
			s.on("f1 propose", func(x *txn) {
				x.leave(f.at("d").desired())
				pending(x, f, func(c *record.Change) { c.Members[3].ClusterID, c.Members[3].ServiceName = "b", "one1" })
			})
			f.propose("d", "f1-d", 2)
		}, "b/one1 is a member twice", []invariants.Rule{invariants.RuleAtomic}},
	})
	run(t, invariants.RuleGraph, []planted{
		{"the asked member does not see the others", grow("propose", func(x *txn, f *federation) {
			desired(x, f.at("d"), func(d *record.Desired) { d.Sees = []string{"a/one0"} })
		}), "it lists [a/one0], the graph says [a/one0 b/one1 c/one2]", nil},
		{"a change to two coordinators", grow("propose", func(x *txn, f *federation) {
			pending(x, f, func(c *record.Change) { c.Members[3].Coordinator = true })
		}), "generation 2 has 2 coordinators", nil},
		{"those who stay do not see who comes", grow("grow", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Sees = []string{"a/one0", "c/one2"} })
		}), "the graph says [a/one0 c/one2 d/one3]", nil},
	})
}

// TestPromise11Requests: the outcome of a change is its request's answer at once, and
// for good.
func TestPromise11Requests(t *testing.T) {
	t.Parallel()
	request := record.RequestKey("change-of-f1f1-d")
	grown := func(step string, fn func(x *txn)) func(*script, *federation) {
		return func(s *script, f *federation) {
			f.createdStory()
			s.on("f1 "+step, fn)
			f.propose("d", "f1-d", 2)
			f.vote(record.VoteYes, "d")
			f.grow(2)
		}
	}
	run(t, invariants.RuleRequests, []planted{
		{"the answer comes later, or never", grown("grow", func(x *txn) { x.leave(request) }), "has ended, and it has no answer", nil},
		{"a change nobody can repeat", grown("propose", func(x *txn) { x.put(request, record.Request{V: 1, UID: "f1", Answer: &record.Answer{}}) }),
			"it has an answer", nil},
		{"the record is forgotten", func(s *script, f *federation) {
			f.createdStory()
			s.on("f1 propose", func(x *txn) { x.leave(request) })
			f.propose("d", "f1-d", 2)
		}, "has no record", nil},
		{"an answer is changed", func(s *script, f *federation) {
			grown("grow", func(*txn) {})(s, f)
			s.step("extra", func(x *txn) {
				edit(x, request, func(r *record.Request) { r.Answer.Phase = record.PhaseAborted })
			})
		}, "its answer was changed", nil},
	})
}

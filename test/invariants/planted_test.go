package invariants_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// planted is a history in which one promise is broken.
type planted struct {
	name string
	// story writes the history; f is a mesh over a, b and c that is not there yet.
	story func(s *script, f *federation)
	// says is a part of what is reported.
	says string
	// also are other rules that such a history cannot help to break.
	also []invariants.Rule
}

// check writes the history and looks for the rule's own report.
func (p planted) check(t *testing.T, rule invariants.Rule) {
	s := newScript(t)
	p.story(s, s.federation("f1", "one"))
	for step := range s.hooks {
		if !s.hit[step] {
			t.Fatalf("step %q was never written: nothing was planted", step)
		}
	}
	report := check(t, s)
	found := false
	for _, v := range report.Violations {
		switch {
		case v.Rule == rule:
			found = found || strings.Contains(v.String(), p.says)
		case !slices.Contains(p.also, v.Rule):
			t.Errorf("another rule is broken: %s", v)
		}
	}
	if !found {
		t.Errorf("nothing about %q in %v", p.says, report.Violations)
	}
	if report.Err() == nil {
		t.Error("the report has no error")
	}
}

func run(t *testing.T, rule invariants.Rule, cases []planted) {
	t.Helper()
	for _, p := range cases {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.check(t, rule)
		})
	}
}

// spoil spoils a step of f1 and then tells a whole life.
func spoil(step string, fn func(x *txn, f *federation)) func(*script, *federation) {
	return func(s *script, f *federation) {
		s.on("f1 "+step, func(x *txn) { fn(x, f) })
		f.createdStory()
		f.deletedStory()
	}
}

// spoilRollback does the same to a creation that is rolled back.
func spoilRollback(step string, fn func(x *txn, f *federation)) func(*script, *federation) {
	return func(s *script, f *federation) {
		s.on("f1 "+step, func(x *txn) { fn(x, f) })
		f.rolledBackStory()
	}
}

// afterwards adds a step of nobody's after a creation.
func afterwards(fn func(x *txn, f *federation)) func(*script, *federation) {
	return func(s *script, f *federation) {
		f.createdStory()
		s.step("extra", func(x *txn) { fn(x, f) })
	}
}

func desired(x *txn, r replica, fn func(*record.Desired)) { edit(x, r.desired(), fn) }

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
		{"a replica is a generation ahead", spoil("create", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Generation, d.Spec = 2, "one1/f1-b.2" })
			x.raw(record.SpecKey("b", "one1/f1-b.2"), strings.Replace(string(f.s.keys[f.at("b").spec()].value), `"oscarfed/generation":"1"`, `"oscarfed/generation":"2"`, 1))
		}), "it has generation 2 and its federation 1", []invariants.Rule{invariants.RuleStatus, invariants.RuleAbsence}},
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
		}, "two members have uid f1-b", []invariants.Rule{invariants.RuleOurs, invariants.RuleAtomic}},
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
		{"an unknown topology", fed(func(f *record.Federation) { f.Topology = "ring" }), `topology "ring" is unknown`, nil},
		{"no coordinator", fed(func(f *record.Federation) { f.Members[0].Coordinator = false }), "it has 0 coordinators", nil},
		{"two coordinators", fed(func(f *record.Federation) { f.Members[1].Coordinator = true }), "it has 2 coordinators", nil},
		{"a coordinator that is not deployed", fed(func(f *record.Federation) {
			f.Members[0].Coordinator = false
			f.Members = append(f.Members, record.Member{Type: "endpoint", URL: "https://x.example.org", Coordinator: true})
		}), "is no replica", nil},
	})
}

func TestPromise4Writers(t *testing.T) {
	t.Parallel()
	run(t, invariants.RuleWriters, []planted{
		{"a syncer writes its desired record", spoil("vote a", func(x *txn, f *federation) {
			desired(x, f.at("a"), func(d *record.Desired) { d.Drift = "report" })
			edit(x, f.key(), func(fed *record.Federation) { fed.Detail = "by the syncer" })
		}), "not for the syncer of a to write", []invariants.Rule{invariants.RuleStatus, invariants.RuleVotes}},
		{"a syncer reports for another cluster", spoil("vote b", func(x *txn, f *federation) {
			x.put(record.ObservedClusterKey("a"), record.ObservedCluster{V: 1, Recipient: "other"})
		}), "not for the syncer of", nil},
		{"the control plane reports", spoil("commit", func(x *txn, f *federation) {
			edit(x, f.at("a").observed(), func(o *record.Observed) { o.Message = "by the control plane" })
		}), "written together with", nil},
		{"the control plane deletes a report and keeps the desired record", spoil("ready", func(x *txn, f *federation) {
			x.remove(f.at("a").observed())
		}), "written together with", []invariants.Rule{invariants.RuleStatus}},
		{"the control plane deletes another report than that of the desired record", func(s *script, f *federation) {
			other := s.federation("f2", "two").createdStory()
			s.on("f1 abort", func(x *txn) { x.remove(other.at("a").observed()) })
			f.refusedStory()
		}, "c/a/observed/services/two0", nil},
		{"the control plane ends a session", spoil("bury", func(x *txn, f *federation) { x.remove(record.SessionKey("c")) }),
			"c/c/session", nil},
		{"a report without a session", func(s *script, f *federation) {
			f.create()
			s.step("session ends", func(x *txn) { x.remove(record.SessionKey("b")) })
			f.vote(record.VoteYes, "b")
		}, "cluster b had no session", nil},
		{"a kind of report that is not known here", afterwards(func(x *txn, f *federation) {
			x.raw(record.ObservedPrefix("a")+"capacity", `{"v":1,"source":"oscar"}`)
			x.raw(record.Root+"reserved/a", `{"v":1,"cpu":1}`)
		}), "written together with reserved/a", nil},
	})
}

func TestPromise5AbsenceIsNoOrder(t *testing.T) {
	t.Parallel()
	run(t, invariants.RuleAbsence, []planted{
		{"an apply is gone without a tombstone", func(s *script, f *federation) {
			s.on("f1 bury", func(x *txn) { f.take(x, f.at("b")) })
			f.createdStory()
			f.bury(record.PhaseDeleting, record.CauseDeleted)
		}, "uid f1-b, which was to be applied, is gone without a tombstone", nil},
		{"an apply becomes a prepare", afterwards(func(x *txn, f *federation) {
			f.turn(x, record.PhaseReady)
			desired(x, f.at("b"), func(d *record.Desired) { d.Intent = record.IntentPrepare })
		}), "an apply became a prepare again", []invariants.Rule{invariants.RuleAtomic}},
		{"a tombstone becomes an apply", spoil("forget", func(x *txn, f *federation) {
			x.leave(f.key(), f.history(), f.at("b").desired(), f.at("b").observed(), f.at("b").deleted())
			f.turn(x, record.PhaseDeleting)
			desired(x, f.at("b"), func(d *record.Desired) { d.Intent = record.IntentApply })
		}), "a tombstone became apply again", []invariants.Rule{invariants.RuleAtomic, invariants.RuleGraph}},
		{"one life replaces another", func(s *script, f *federation) {
			f.createdStory()
			f.replicas[1].uid = "f1-b2"
			f.specs()
			s.step("extra", func(x *txn) {
				edit(x, f.key(), func(fed *record.Federation) { fed.Members[1].UID = "f1-b2" })
				desired(x, f.at("b"), func(d *record.Desired) {
					d.UID, d.Spec, d.Mark = "f1-b2", "one1/f1-b2.1", record.Mark(f.at("b").token())
				})
			})
		}, "uid f1-b (apply) is replaced by f1-b2", []invariants.Rule{invariants.RuleVotes, invariants.RuleStatus, invariants.RuleOurs}},
		{"a tombstone of an older generation", func(s *script, f *federation) {
			f.createdStory()
			s.step("change", func(x *txn) { f.change(x, 2) })
			s.on("f1 bury", func(x *txn) {
				desired(x, f.at("b"), func(d *record.Desired) { d.Generation = 1 })
			})
			f.bury(record.PhaseDeleting, record.CauseDeleted)
		}, "the tombstone has generation 1, but 2 was applied", []invariants.Rule{invariants.RuleStatus}},
		{"a tombstone without a cause", spoil("bury", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Cause = "" })
		}), `has cause ""`, nil},
		{"a tombstone with a spec", spoil("bury", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Spec = "one1/f1-b.1" })
		}), "the tombstone has a spec", nil},
		{"a tombstone for a life that never was", func(s *script, f *federation) {
			s.on("f1 create", func(x *txn) {
				f.turn(x, record.PhaseDeleting)
				x.leave(f.name())
				for _, r := range f.replicas {
					desired(x, r, func(d *record.Desired) {
						d.Intent, d.Cause, d.Spec, d.Sees = record.IntentDelete, record.CauseDeleted, "", nil
					})
				}
			})
			f.create()
		}, "of which nothing was ever desired", []invariants.Rule{invariants.RuleStatus}},
		{"a tombstone goes unacknowledged", func(_ *script, f *federation) {
			f.createdStory()
			f.bury(record.PhaseDeleting, record.CauseDeleted)
			f.acknowledge("a", "b")
			f.forget("a", "b", "c")
		}, "what cluster c reported as deleted is of revision 0", nil},
		{"an acknowledgement of another revision", func(s *script, f *federation) {
			f.createdStory()
			f.bury(record.PhaseDeleting, record.CauseDeleted)
			f.acknowledge("a", "b", "c")
			s.step("extra", func(x *txn) {
				f.turn(x, record.PhaseDeleting)
				desired(x, f.at("c"), func(d *record.Desired) { d.Data = "delete" })
			})
			f.forget("a", "b", "c")
		}, "the tombstone of uid f1-c is gone; it was of revision", nil},
		{"an acknowledged tombstone is not remembered", spoil("forget", func(x *txn, f *federation) { x.leave(f.at("c").deleted()) }),
			"deleted/f1-c was not written with it", nil},
		{"a memory of another life", spoil("forget", func(x *txn, f *federation) {
			edit(x, f.at("c").deleted(), func(d *record.Deleted) { d.Generation = 7 })
		}), "which was not the tombstone at c/one2", nil},
		{"a memory of nothing", afterwards(func(x *txn, f *federation) {
			x.put(record.DeletedKey("f0-a"), record.Deleted{V: 1, UID: "f0-a", Federation: "f0", ClusterID: "a", ServiceName: "zero0"})
		}), "which ends no tombstone at a/zero0", nil},
	})
}

func TestPromise6Ours(t *testing.T) {
	t.Parallel()
	spec := func(old, now string) func(*script, *federation) {
		return spoil("specs", func(x *txn, f *federation) {
			before := string(x.puts[f.at("b").spec()])
			after := strings.Replace(before, old, now, 1)
			if before == after {
				f.s.t.Fatalf("%q is not in %s", old, before)
			}
			x.raw(f.at("b").spec(), after)
		})
	}
	run(t, invariants.RuleOurs, []planted{
		{"a mark that is none", spoil("create", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Mark = "sha256:short" })
		}), "is no fingerprint", nil},
		{"the mark of a tombstone is another one", spoil("bury", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Mark = record.Mark("another token") })
		}), "the mark of uid f1-b has changed", nil},
		{"two lives with one mark", spoil("create", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Mark = record.Mark(f.at("c").token()) })
		}), "have the same mark", nil},
		{"a spec that is changed", afterwards(func(x *txn, f *federation) {
			x.raw(f.at("b").spec(), strings.Replace(string(f.s.keys[f.at("b").spec()].value), `"token":""`, `"token":"","image":"other"`, 1))
		}), "a rendered service was changed", nil},
		{"a spec marked for another life", spec(`"oscarfed/uid":"f1-b"`, `"oscarfed/uid":"f1-c"`), `marked with uid "f1-c"`, nil},
		{"a spec marked for another generation", spec(`"oscarfed/generation":"1"`, `"oscarfed/generation":"2"`), `generation "2"`, nil},
		{"a spec without the worker annotation", spec(`"oscar.grycap/federation-worker":"true"`, `"oscar.grycap/federation-worker":"false"`), "lacks the annotation", nil},
		{"a spec with members", spec(`"members":[]`, `"members":[{"cluster_id":"a"}]`), "has members", nil},
		{"a spec for another name", spec(`"name":"one1"`, `"name":"foreign"`), "the rendered service is b/foreign", nil},
		{"a spec that cannot be read", spec(`"annotations":{`, `"annotations":7,"more":{`), "cannot be read", nil},
		{"a foreign bucket is attached to", func(_ *script, f *federation) {
			f.left = map[string][]string{"b": {"foreign"}}
			f.createdStory()
		}, `bucket "foreign" is taken for one`, nil},
		{"a bucket of another place is attached to", func(s *script, f *federation) {
			f.createdStory()
			f.deletedStory()
			other := s.federation("f2", "two")
			other.left = map[string][]string{"b": {"one"}}
			other.create()
		}, `bucket "one" is taken for one`, nil},
		{"a bucket that nobody made is remembered", spoil("forget", func(x *txn, f *federation) {
			edit(x, f.at("b").deleted(), func(d *record.Deleted) { d.BucketsLeft = []string{"foreign"} })
		}), "never reported to have made it", nil},
	})
}

func TestPromise7UserData(t *testing.T) {
	t.Parallel()
	run(t, invariants.RuleData, []planted{
		{"a rollback deletes buckets", spoilRollback("bury", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Data = "delete" })
		}), `a rollback orders data="delete"`, nil},
		{"a rollback cancels jobs", spoilRollback("bury", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Jobs = "cancel" })
		}), `jobs="cancel"`, nil},
		{"an apply deletes buckets", spoil("commit", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Data = "delete" })
		}), "in a record with intent apply", nil},
		{"an unknown order", spoil("bury", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Data = "all" })
		}), "are unknown", nil},
	})
}

func TestPromise9Secrets(t *testing.T) {
	t.Parallel()
	request := record.RequestKey("x")
	value := func(text string) func(*script, *federation) {
		return afterwards(func(x *txn, f *federation) { x.raw(request, `{"v":1,"uid":"f1","request_id":`+text+`}`) })
	}
	public := func(field string) func(*script, *federation) {
		return spoil("specs", func(x *txn, f *federation) {
			key := f.at("b").spec()
			x.raw(key, strings.Replace(string(x.puts[key]), `"token":""`, `"token":"",`+field, 1))
		})
	}
	quoted, err := json.Marshal(canary)
	if err != nil {
		t.Fatal(err)
	}
	coded := func(before string) string {
		return `"` + base64.StdEncoding.EncodeToString([]byte(before+canary+" and more")) + `"`
	}
	run(t, invariants.RuleSecrets, []planted{
		{"a canary in a value", value(string(quoted)), "in JSON", nil},
		{"a canary as it is", afterwards(func(x *txn, f *federation) { x.raw(request, `{"v":1,"uid":"f1"} `+canary) }), "as it is", []invariants.Rule{invariants.RuleRecords}},
		{"a canary in a key", afterwards(func(x *txn, f *federation) { x.put(record.RequestKey(canary), record.Request{V: 1, UID: "f1"}) }), "as it is", nil},
		{"a canary in a name's owner", afterwards(func(x *txn, f *federation) {
			x.raw(record.Root+"audit/"+strings.ReplaceAll(canary, " ", "+"), `{"v":1,"x":"`+fmt.Sprintf("%x", canary)+`"}`)
		}), "in hexadecimal", nil},
		{"a canary in base64", value(coded("")), "in base64", nil},
		{"a canary in base64 behind one byte", value(coded("x")), "in base64", nil},
		{"a canary in base64 behind two bytes", value(coded("xy")), "in base64", nil},
		{"a canary below a prefix of which nothing is known", afterwards(func(x *txn, f *federation) {
			x.raw(record.Root+"jobs/j1", `{"v":1,"event":`+string(quoted)+`}`)
		}), "in JSON", nil},
		{"a secret of the environment", public(`"environment":{"secrets":{"MY_KEY":"value"}}`), "service.environment.secrets.MY_KEY is readable", nil},
		{"a credential of a storage provider", public(`"storage_providers":{"minio":{"x":{"endpoint":"e","access_key":"AKIA","secret_key":""}}}`),
			"service.storage_providers.minio.x.access_key is readable", nil},
		{"a password of a cluster", public(`"clusters":{"a":{"endpoint":"e","auth_password":"p"}}`), "service.clusters.a.auth_password is readable", nil},
		{"a header of a member", public(`"federation":{"members":[{"headers":{"Authorization":"Bearer x"}}]}`),
			"service.federation.members.0.headers.Authorization is readable", []invariants.Rule{invariants.RuleOurs}},
		{"a refresh token in the history", spoil("specs", func(x *txn, f *federation) {
			x.put(f.history(), record.History{V: 1, Service: json.RawMessage(`{"name":"one0","environment":{"secrets":{"refresh_token":"rt"}}}`)})
		}), "service.environment.secrets.refresh_token is readable", nil},
		{"a numeric password", public(`"storage_providers":{"webdav":{"x":{"password":1234}}}`), "password is readable", nil},
		{"a sealed field that is not sealed", spoil("specs", func(x *txn, f *federation) {
			edit(x, f.at("b").spec(), func(s *record.Spec) { s.Sealed = base64.StdEncoding.EncodeToString([]byte(`{"environment":{}}`)) })
		}), "sealed is no age envelope", nil},
		{"a spec without its envelope", spoil("specs", func(x *txn, f *federation) {
			edit(x, f.at("b").spec(), func(s *record.Spec) { s.Sealed = "" })
		}), "sealed is no age envelope", nil},
		{"tokens that are not sealed", afterwards(func(x *txn, f *federation) {
			x.put(record.TokensKey("a", "f1"), record.Tokens{V: 1, Generation: 1, Refresh: "rt"})
		}), "refresh is no age envelope", nil},
		{"an access token that is not sealed", afterwards(func(x *txn, f *federation) {
			x.put(record.TokensKey("b", "f1"), record.Tokens{V: 1, Generation: 1, Access: "at"})
		}), "access is no age envelope", nil},
		{"the token of a service, before its mark is known", spoil("specs", func(x *txn, f *federation) {
			edit(x, f.at("b").spec(), func(s *record.Spec) {
				s.Service = json.RawMessage(strings.Replace(string(s.Service), `"token":""`, `"label":"`+f.at("b").token()+`"`, 1))
			})
		}), "the token of a service is readable", nil},
		{"the token of a service, in a report", afterwards(func(x *txn, f *federation) {
			edit(x, f.at("b").observed(), func(o *record.Observed) { o.Message = "401 for " + f.at("b").token() })
		}), "the token of a service is readable", nil},
	})
}

func TestPromise10Generations(t *testing.T) {
	t.Parallel()
	report := func(step string, fn func(*record.Observed)) func(*script, *federation) {
		return spoil(step, func(x *txn, f *federation) { edit(x, f.at("b").observed(), fn) })
	}
	phase := func(step string, p record.Phase) func(*script, *federation) {
		return spoil(step, func(x *txn, f *federation) { f.turn(x, p) })
	}
	atomic, votes := []invariants.Rule{invariants.RuleAtomic}, []invariants.Rule{invariants.RuleVotes}
	run(t, invariants.RuleStatus, []planted{
		{"a report about a generation to come", report("applied b", func(o *record.Observed) { o.ObservedGeneration = 2 }), "the newest desired is 1", nil},
		{"a report about another life", report("applied b", func(o *record.Observed) { o.UID = "f0-b" }), "which was never desired here", votes},
		{"a report about the life of another place", report("applied b", func(o *record.Observed) { o.UID = "f1-c" }), "which was never desired here", votes},
		{"a report about an older record", report("applied b", func(o *record.Observed) { o.DesiredRevision-- }), "it answers revision", nil},
		{"ready for a prepare", report("vote b", func(o *record.Observed) { o.Phase = record.PhaseReady }), `phase "ready" answers a desired record with intent prepare`, nil},
		{"deleted without a tombstone", report("applied b", func(o *record.Observed) { o.Phase = record.PhaseDeleted }), "with intent apply", nil},
		{"a computed phase", report("applied b", func(o *record.Observed) { o.Phase = record.PhaseUnreachable }), `phase "unreachable"`, nil},
		{"ready for an older generation", func(s *script, f *federation) {
			f.createdStory()
			s.step("change", func(x *txn) { f.change(x, 2) })
			f.applied(record.PhaseReady, "b") // says generation 1
		}, "it is ready at generation 1, desired is 2", nil},
		{"reports go back", func(s *script, f *federation) {
			f.createdStory()
			s.step("change", func(x *txn) { f.change(x, 2) })
			s.on("f1 applied b", func(x *txn) { edit(x, f.at("b").observed(), func(o *record.Observed) { o.ObservedGeneration = 2 }) })
			f.applied(record.PhaseReady, "b")
			delete(s.hooks, "f1 applied b")
			f.applied(record.PhaseFailed, "b")
		}, "and spoke of 2 before", nil},
		{"ready before all are", func(_ *script, f *federation) {
			f.create()
			f.vote(record.VoteYes, "a", "b", "c")
			f.commit("a", "b", "c")
			f.applied(record.PhaseReady, "a", "c")
			f.ready()
		}, "what was reported as ready is of revision 0", nil},
		{"ready although one failed", spoil("applied b", func(x *txn, f *federation) {
			edit(x, f.at("b").observed(), func(o *record.Observed) { o.Phase = record.PhaseFailed })
		}), "what was reported as ready is of revision 0", nil},
		{"ready for the record as it was", func(s *script, f *federation) {
			f.create()
			f.vote(record.VoteYes, "a", "b", "c")
			f.commit("a", "b", "c")
			f.applied(record.PhaseReady, "a", "b", "c")
			s.step("paused", func(x *txn) {
				f.turn(x, record.PhaseApplying)
				desired(x, f.at("b"), func(d *record.Desired) { d.Paused = true })
			})
			f.ready()
		}, "what was reported as ready is of revision", nil},
		{"a report about a place where nothing is desired any more", func(s *script, f *federation) {
			f.refusedStory()
			s.step("late vote", func(x *txn) {
				x.put(f.at("c").observed(), record.Observed{V: 1, Phase: record.PhaseRefused, UID: "f1-c", ObservedGeneration: 1, DesiredRevision: 9})
			})
		}, "what is desired has uid (none) and revision 0", nil},
		{"ready without being applied", phase("commit", record.PhaseReady), "is ready without having been applied", nil},
		{"a federation that begins as ready", phase("create", record.PhaseReady), `phase "ready" follows ""`, atomic},
		{"a deletion of a creation in flight", func(_ *script, f *federation) {
			f.create()
			f.vote(record.VoteYes, "a", "b", "c")
			f.commit("a", "b", "c")
			f.bury(record.PhaseDeleting, record.CauseDeleted)
		}, `phase "deleting" follows "applying"`, nil},
		{"a rollback of what was ready", func(_ *script, f *federation) {
			f.createdStory()
			f.bury(record.PhaseRollingBack, record.CauseRollback)
		}, `phase "rolling_back" follows "ready"`, nil},
		{"a phase that is never stored", phase("ready", record.PhaseDegraded), `phase "degraded" follows "applying"`, atomic},
		{"a ready federation is forgotten", func(s *script, f *federation) {
			f.createdStory()
			s.step("extra", func(x *txn) { x.remove(f.key()) })
		}, `phase "" follows "ready"`, atomic},
		{"a federation begins with generation 2", spoil("create", func(x *txn, f *federation) {
			edit(x, f.key(), func(fed *record.Federation) { fed.Generation = 2 })
		}), "it begins with generation 2", atomic},
		{"the generation of a federation goes back", func(s *script, f *federation) {
			f.createdStory()
			s.step("change", func(x *txn) { f.change(x, 3) })
			s.step("back", func(x *txn) { f.change(x, 2) })
		}, "generation 2 follows 3", []invariants.Rule{invariants.RuleOurs}},
		{"a member is added within a generation", afterwards(func(x *txn, f *federation) {
			edit(x, f.key(), func(fed *record.Federation) {
				fed.Members = append(fed.Members, record.Member{Type: "endpoint", URL: "https://x.example.org"})
			})
		}), "the graph was changed within generation 1", nil},
		{"whom a replica sees changes within a generation", afterwards(func(x *txn, f *federation) {
			edit(x, f.key(), func(fed *record.Federation) { fed.Detail = "changed" })
			desired(x, f.at("b"), func(d *record.Desired) { d.Sees = nil })
		}), "what is desired was changed within generation 1", []invariants.Rule{invariants.RuleGraph}},
	})
}

func TestVotes(t *testing.T) {
	t.Parallel()
	vote := func(step string, fn func(*record.Vote)) func(*script, *federation) {
		return spoil(step, func(x *txn, f *federation) {
			edit(x, f.at("b").observed(), func(o *record.Observed) { fn(o.Vote) })
		})
	}
	run(t, invariants.RuleVotes, []planted{
		{"a vote on a revision at which nobody was asked", vote("vote b", func(v *record.Vote) { v.Revision-- }), "at which uid f1-b was not asked", nil},
		{"an answer that is none", vote("vote b", func(v *record.Vote) { v.Answer = "perhaps" }), "neither yes nor no", nil},
		{"a vote after the prepare", vote("applied b", func(v *record.Vote) { v.DelayS = 7 }), "already", nil},
		{"a no is applied", vote("vote b", func(v *record.Vote) { v.Answer = record.VoteNo }), "it voted no", nil},
		{"a missing vote is applied", func(_ *script, f *federation) {
			f.create()
			f.vote(record.VoteYes, "a", "c")
			f.commit("a", "b", "c")
		}, "uid f1-b is applied and has not voted", nil},
		{"a stale vote is applied", func(s *script, f *federation) {
			f.bestEffortStory() // b refused the first prepare
			s.step("asked again", func(x *txn) {
				f.turn(x, record.PhaseReady)
				desired(x, f.at("b"), func(d *record.Desired) { d.Paused = true })
			})
			f.vote(record.VoteYes, "b")
			s.step("asked again", func(x *txn) {
				f.turn(x, record.PhaseReady)
				desired(x, f.at("b"), func(d *record.Desired) { d.Paused = false })
			})
			f.join("b")
		}, "it voted yes on revision", nil},
		{"a vote of the aborted attempt counts for the next", func(s *script, f *federation) {
			s.on("f1 abort", func(x *txn) { x.leave(f.at("a").observed()) })
			f.refusedStory().forget()
			again := s.federation("f2", "one")
			again.create()
			again.vote(record.VoteYes, "b", "c")
			again.commit("a", "b", "c")
		}, "uid f2-a is applied and has not voted", nil},
		{"an apply out of nothing", func(s *script, f *federation) {
			s.on("f1 create", func(x *txn) {
				desired(x, f.at("b"), func(d *record.Desired) { d.Intent = record.IntentApply })
			})
			f.create()
		}, "uid f1-b is applied without a vote", []invariants.Rule{invariants.RuleAtomic}},
	})
}

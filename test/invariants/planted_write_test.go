package invariants_test

import (
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/invariants"
)

func TestPromise4Writers(t *testing.T) {
	t.Parallel()
	run(t, invariants.RuleWriters, []planted{
		{"reports are deleted and nobody was readmitted", func(s *script, f *federation) {
			s.on("readmit c", func(x *txn) { x.leave(record.ClusterKey("c")) })
			revokedStory(s, f)
		}, "which is not for the syncer of c", nil},
		{"a syncer writes its desired record", spoil("vote a", func(x *txn, f *federation) {
			desired(x, f.at("a"), func(d *record.Desired) { d.Drift = "report" })
			edit(x, f.key(), func(fed *record.Federation) { fed.Detail = "by the syncer" })
		}), "not for the syncer of a to write", []invariants.Rule{invariants.RuleVotes}},
		{"a syncer reports for another cluster", spoil("vote b", func(x *txn, f *federation) {
			x.put(record.ObservedClusterKey("a"), record.ObservedCluster{V: 1, Recipient: "other"})
		}), "not for the syncer of", nil},
		{"the control plane reports", spoil("commit", func(x *txn, f *federation) {
			edit(x, f.at("a").observed(), func(o *record.Observed) { o.Message = "by the control plane" })
		}), "written together with", nil},
		{"the control plane deletes a report and keeps the desired record", spoil("ready", func(x *txn, f *federation) {
			x.remove(f.at("a").observed())
		}), "written together with", nil},
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
		{"a report on a job without a session", func(s *script, f *federation) {
			f.createdStory()
			j := &job{s: s, f: f, id: "j1"}
			j.accept()
			j.assign("b", 1)
			s.step("session ends", func(x *txn) { x.remove(record.SessionKey("b")) })
			j.says("b", 1, record.JobClaimed)
		}, "cluster b had no session", nil},
		{"a job is claimed in the name of an earlier session", func(s *script, f *federation) {
			f.createdStory()
			j := &job{s: s, f: f, id: "j1"}
			j.accept()
			j.assign("b", 1)
			s.on("job claimed", func(x *txn) { edit(x, j.report("b", 1), func(r *record.JobReport) { r.Session-- }) })
			j.says("b", 1, record.JobClaimed)
		}, "that of cluster b is of", nil},
		{"an entry of the audit is changed", afterwards(func(x *txn, f *federation) {
			x.put(record.AuditKey("1"), record.Audit{V: 1, Action: record.ActionCreate, Outcome: record.OutcomeAccepted})
		}, func(x *txn, f *federation) {
			x.put(record.AuditKey("1"), record.Audit{V: 1, Action: record.ActionCreate, Outcome: record.OutcomeDone})
		}), "an entry of the audit was changed", nil},
		{"a reading goes with the audit", afterwards(func(x *txn, f *federation) {
			x.put(record.ReadingKey("a", "1"), record.Reading{V: 1})
		}, func(x *txn, f *federation) {
			x.remove(record.ReadingKey("a", "1"))
			x.put(record.AuditKey("1"), record.Audit{V: 1, Action: record.ActionReadToken})
			x.remove(record.SessionKey("a"))
		}), "c/a/session", nil},
		{"a reading is taken away", afterwards(func(x *txn, f *federation) {
			x.put(record.ReadingKey("a", "1"), record.Reading{V: 1})
		}, func(x *txn, f *federation) {
			x.remove(record.ReadingKey("a", "1"))
			f.turn(x, record.PhaseReady)
		}), "c/a/observed/audit/1", nil},
		{"a kind of report that is not known here", afterwards(func(x *txn, f *federation) {
			x.raw(record.ObservedPrefix("a")+"weather", `{"v":1,"source":"oscar"}`)
			x.raw(record.Root+"reserved/a", `{"v":1,"cpu":1}`)
		}), "written together with reserved/a", nil},
		{"a capacity of another session", spoil("vote b", func(x *txn, f *federation) {
			x.put(record.CapacityKey("b"), record.Capacity{V: 1, Session: 1})
		}), "it says that it was written in the session of revision 1", nil},
		{"the control plane writes a capacity", afterwards(func(x *txn, f *federation) {
			x.put(record.CapacityKey("b"), record.Capacity{V: 1, Session: x.s.keys[record.SessionKey("b")].revision})
			f.turn(x, record.PhaseReady)
		}), "c/b/observed/capacity", nil},
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
		{"a rollback does not wait for a cluster that is there", func(s *script, f *federation) {
			f.create()
			f.vote(record.VoteYes, "a", "b", "c")
			f.commit("a", "b", "c")
			f.applied(record.PhaseFailed, "b")
			f.bury(record.PhaseRollingBack, record.CauseRollback)
			f.acknowledge("a", "b")
			f.rolledBack("a", "b")
		}, "the tombstone of replica f1-c on cluster c was not waited for", nil},
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
				x.remove(f.secrets())
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
		{"a bucket is deleted without an order", spoil("ack b", func(x *txn, f *federation) {
			edit(x, f.at("b").observed(), func(o *record.Observed) {
				o.BucketFates = []record.BucketFate{{Bucket: "one", Fate: record.BucketDeleted}}
			})
		}), "was deleted without an order", nil},
		{"a volume is deleted without an order", spoil("ack b", func(x *txn, f *federation) {
			edit(x, f.at("b").observed(), func(o *record.Observed) {
				o.VolumeFate = &record.VolumeFate{Volume: "one", Fate: record.BucketDeleted}
			})
		}), `volume "one" was deleted without an order`, nil},
		{"an unknown order", spoil("bury", func(x *txn, f *federation) {
			desired(x, f.at("b"), func(d *record.Desired) { d.Data = "all" })
		}), "are unknown", nil},
	})
}

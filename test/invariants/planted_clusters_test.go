package invariants_test

import (
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// order writes the order to remove a cluster.
func (s *script) order(cluster string, force, orphan bool) {
	s.step("order "+cluster, func(x *txn) {
		edit(x, record.ClusterKey(cluster), func(c *record.Cluster) {
			c.State, c.Removal = record.ClusterRemoving, &record.Removal{RequestID: "removal", Force: force, Orphan: orphan, StartedAt: clock}
		})
		edit(x, record.DesiredClusterKey(cluster), func(d *record.DesiredCluster) { d.State = record.ClusterRemoving })
		x.put(record.FenceKey, record.Fence{V: 1, Why: "removing " + cluster})
	})
}

// leave takes the member on a cluster out of the federation; with force its
// tombstone stands alone.
func (f *federation) leave(cluster string, force bool) replica {
	r := f.at(cluster)
	f.step("leave", func(x *txn) {
		f.change(x, 2)
		f.replicas = slices.DeleteFunc(f.replicas, func(o replica) bool { return o == r })
		edit(x, f.key(), func(fed *record.Federation) {
			i := slices.IndexFunc(fed.Members, func(m record.Member) bool { return m.UID == r.uid })
			if !force {
				fed.Leaving = append(fed.Leaving, fed.Members[i])
			}
			fed.Members = slices.Delete(fed.Members, i, i+1)
		})
		for i, o := range f.replicas {
			edit(x, o.desired(), func(d *record.Desired) { d.Sees = f.sees(i) })
		}
		edit(x, r.desired(), func(d *record.Desired) {
			d.Intent, d.Cause, d.Spec, d.Sees = record.IntentDelete, record.CauseRemoved, "", nil
		})
		x.remove(r.specOf(2))
		x.remove(r.specOf(1))
	})
	return r
}

// unregister takes the registration of a cluster away, whose tombstones stay.
func (s *script) unregister(cluster string) {
	s.step("unregister "+cluster, func(x *txn) {
		x.remove(record.ClusterKey(cluster))
		edit(x, record.DesiredClusterKey(cluster), func(d *record.DesiredCluster) { d.State, d.RemovedAt = record.ClusterRemoved, &clock })
		x.put(record.FenceKey, record.Fence{V: 1, Why: "removed " + cluster})
	})
}

// register registers another cluster under an id that was removed.
func (s *script) register(cluster string, r replica) {
	s.step("again "+cluster, func(x *txn) {
		x.put(record.ClusterKey(cluster), record.Cluster{V: 1, ClusterID: cluster, UID: "another-" + cluster, State: record.ClusterActive})
		x.put(record.DesiredClusterKey(cluster), record.DesiredCluster{V: 1, ClusterID: cluster, UID: "another-" + cluster, State: record.ClusterActive})
		x.put(record.FenceKey, record.Fence{V: 1, Why: "registered " + cluster})
		x.remove(r.desired())
		x.remove(r.observed())
		x.remove(record.ObservedClusterKey(cluster))
	})
}

// revoke takes the rights of a cluster away.
func (s *script) revoke(cluster string) {
	s.step("revoke "+cluster, func(x *txn) {
		edit(x, record.ClusterKey(cluster), func(c *record.Cluster) {
			c.State, c.Revoked = record.ClusterRevoked, &record.Revocation{Message: "too much", At: clock}
		})
		edit(x, record.DesiredClusterKey(cluster), func(d *record.DesiredCluster) { d.State = record.ClusterRevoked })
		x.put(record.FenceKey, record.Fence{V: 1, Why: "revoked " + cluster})
	})
}

// readmit gives them back; what the cluster had reported goes.
func (s *script) readmit(cluster string, r replica) {
	s.step("readmit "+cluster, func(x *txn) {
		edit(x, record.ClusterKey(cluster), func(c *record.Cluster) { c.State, c.Revoked = record.ClusterActive, nil })
		edit(x, record.DesiredClusterKey(cluster), func(d *record.DesiredCluster) { d.State = record.ClusterActive })
		x.put(record.FenceKey, record.Fence{V: 1, Why: "readmitted " + cluster})
		x.remove(r.observed())
		x.remove(record.ObservedClusterKey(cluster))
	})
}

// revokedStory: c is revoked and readmitted, and a replica stands there all the time.
func revokedStory(s *script, f *federation) {
	f.createdStory()
	s.revoke("c")
	s.readmit("c", f.at("c"))
}

func TestARevokedClusterBreaksNothing(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	revokedStory(s, s.federation("f1", "one"))
	if report := check(t, s); report.Err() != nil {
		t.Errorf("%v", report.Violations)
	}
}

// removedStory: c is removed by force, and another cluster gets its id.
func removedStory(s *script, f *federation) {
	f.createdStory()
	s.order("c", true, false)
	r := f.leave("c", true)
	s.unregister("c")
	s.register("c", r)
}

func TestARemovedClusterBreaksNothing(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	removedStory(s, s.federation("f1", "one"))
	other := s.federation("f2", "two").createdStory()
	s.order("b", false, true)
	s.on("f2 leave", func(x *txn) { // as the order says
		edit(x, record.DesiredServiceKey("b", "two1"), func(d *record.Desired) { d.Keep = record.KeepRelease })
	})
	other.leave("b", false)
	if report := check(t, s); report.Err() != nil {
		t.Errorf("%v", report.Violations)
	}
}

// outlivedStory: what stands on c outlives its registration, and becomes a member again.
func outlivedStory(s *script, f *federation) {
	removedStory(s, f)
	r := replica{"c", "one2", "f1-c"}
	s.step("report c", func(x *txn) {
		x.put(record.ObservedClusterKey("c"), record.ObservedCluster{V: 1, Orphans: []record.Orphan{{ServiceName: r.service, UID: r.uid, Generation: 1}}})
	})
	f.step("back", func(x *txn) {
		f.change(x, 3)
		f.replicas = append(f.replicas, r)
		edit(x, f.key(), func(fed *record.Federation) {
			fed.Members = append(fed.Members, record.Member{Type: "oscar", ClusterID: r.cluster, ServiceName: r.service, UID: r.uid})
		})
		f.render(x, r, 3)
		x.put(r.desired(), record.Desired{
			V: 1, Intent: record.IntentApply, Federation: f.uid, GroupID: f.group, UID: r.uid, Generation: 3, Owner: owner,
			Spec: r.specName(3), Mark: record.Mark(r.token()),
		})
		for i, o := range f.replicas {
			edit(x, o.desired(), func(d *record.Desired) { d.Sees = f.sees(i) })
		}
	})
}

func TestAServiceThatOutlivesItsClustersRegistrationMayBeAMemberAgain(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	outlivedStory(s, s.federation("f1", "one"))
	if report := check(t, s); report.Err() != nil {
		t.Errorf("%v", report.Violations)
	}
}

func TestClusters(t *testing.T) {
	t.Parallel()
	spoilt := func(step string, fn func(x *txn, f *federation)) func(*script, *federation) {
		return func(s *script, f *federation) {
			s.on(step, func(x *txn) { fn(x, f) })
			removedStory(s, f)
		}
	}
	run(t, invariants.RuleClusters, []planted{
		{"a registration goes although a member is there", func(s *script, f *federation) {
			f.createdStory()
			s.order("c", true, false)
			s.unregister("c")
		}, "on a cluster that is not registered", nil},
		{"a member that leaves is forgotten with its cluster", func(s *script, f *federation) {
			f.createdStory()
			s.order("c", true, false)
			f.leave("c", false)
			s.unregister("c")
		}, "on a cluster that is not registered", nil},
		{"a registration goes and nobody ordered it", func(s *script, f *federation) { s.unregister("d") }, "nobody ordered that", nil},
		{"a registration goes without force before it is acknowledged", func(s *script, f *federation) {
			f.createdStory()
			s.order("c", false, false)
			f.leave("c", true)
			s.unregister("c")
		}, "is gone without force", []invariants.Rule{invariants.RuleAtomic}},
		{"a creation on a cluster that is being removed", func(s *script, f *federation) {
			s.order("c", true, false)
			f.create()
		}, "gets c/one2 on a cluster that is being removed", nil},
		{"the order is taken back", func(s *script, f *federation) {
			s.order("d", true, false)
			s.step("back", func(x *txn) {
				edit(x, record.ClusterKey("d"), func(c *record.Cluster) { c.State, c.Removal = record.ClusterActive, nil })
				edit(x, record.DesiredClusterKey("d"), func(d *record.DesiredCluster) { d.State = record.ClusterActive })
			})
		}, "was taken back", nil},
		{"the syncer is told another state", spoilt("order c", func(x *txn, _ *federation) {
			edit(x, record.DesiredClusterKey("c"), func(d *record.DesiredCluster) { d.State = record.ClusterActive })
		}), "is not told", nil},
		{"the same uid again", spoilt("again c", func(x *txn, _ *federation) {
			edit(x, record.ClusterKey("c"), func(c *record.Cluster) { c.UID = "uid-c" })
			edit(x, record.DesiredClusterKey("c"), func(d *record.DesiredCluster) { d.UID = "uid-c" })
			for _, key := range slices.Clone(x.order) { // then nothing may be cleared either
				if x.puts[key] == nil {
					x.leave(key)
				}
			}
		}), "was registered before", []invariants.Rule{invariants.RuleAtomic}},
		{"an old tombstone for a new cluster", spoilt("again c", func(x *txn, _ *federation) {
			x.leave(record.DesiredServiceKey("c", "one2"), record.ObservedServiceKey("c", "one2"))
		}), "of another cluster", []invariants.Rule{invariants.RuleAtomic}},
		{"an old report for a new cluster", spoilt("again c", func(x *txn, _ *federation) {
			x.leave(record.ObservedClusterKey("c"))
		}), "c/c/observed/cluster", nil},
		{"a service is given free and nobody ordered it", spoilt("f1 leave", func(x *txn, f *federation) {
			edit(x, record.DesiredServiceKey("c", "one2"), func(d *record.Desired) { d.Keep = record.KeepRelease })
		}), "which no removal of its cluster orders", nil},
		{"an unknown word", spoilt("f1 leave", func(x *txn, f *federation) {
			edit(x, record.DesiredServiceKey("c", "one2"), func(d *record.Desired) { d.Keep = "maybe" })
		}), `keep="maybe" is unknown`, nil},
		{"a creation on a cluster that is revoked", func(s *script, f *federation) {
			s.revoke("c")
			f.create()
		}, "gets c/one2 on a cluster that is revoked", nil},
		{"a cluster is revoked and called active", func(s *script, f *federation) {
			s.on("revoke c", func(x *txn) {
				edit(x, record.ClusterKey("c"), func(c *record.Cluster) { c.State = record.ClusterActive })
				edit(x, record.DesiredClusterKey("c"), func(d *record.DesiredCluster) { d.State = record.ClusterActive })
			})
			revokedStory(s, f)
		}, "and its revocation is", nil},
		{"a cluster is readmitted with what it reported", func(s *script, f *federation) {
			s.on("readmit c", func(x *txn) { x.leave(record.ObservedClusterKey("c")) })
			revokedStory(s, f)
		}, "is still what it reported before", nil},
		{"an apply that gives free", afterwards(func(x *txn, f *federation) {
			f.turn(x, record.PhaseReady)
			edit(x, f.key(), func(fed *record.Federation) { fed.Detail = "touched" })
			desired(x, f.at("b"), func(d *record.Desired) { d.Keep = record.KeepRelease })
		}), "with intent apply", nil},
	})
}

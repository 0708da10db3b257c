package main

// ofRecovery are the defects of how clusters leave, and of how a restored store is recognised.
func ofRecovery() []defect {
	return []defect{
		one(
			"a cluster is gone before it has acknowledged its tombstones",
			"controlplane/decide/removal.go",
			"case removal.Force || s.Records+s.tokens+s.jobs == 0:",
			"case removal.Force || s.tokens+s.jobs == 0:",
		).in(guests),
		one(
			"a cluster that is to go may get new members",
			"controlplane/clusters/remove.go",
			"return gate.BumpFence(v, tx, \"removing \"+id)",
			"_ = gate.BumpFence\n\t\t\treturn nil",
		).and(
			"controlplane/federations/create.go",
			"if kv, _ := v.KV(record.FenceKey); kv.ModRevision != drafts[0].Fence {\n\t\t\t\treturn gate.ErrFence\n\t\t\t}\n",
			"",
		).in(guests).shows("a cluster that is removed while a creation wants it gets no replica"),
		one(
			"an etcd that has gone back is not noticed",
			"controlplane/recovery/restored.go",
			"if found.why == \"\" {\n\t\treturn\n\t}",
			"if found.why == \"\" || r.Restored || !r.Restored {\n\t\treturn\n\t}",
		).was("87ed586").in(restores).shows("a change that a restore has lost is kept until a person decides"),
		one(
			"requests are answered while it is not known which history the store has",
			"controlplane/gate/gate.go",
			"func (g *Gate) Unverified() bool { return g.suspicions.Load() > 0 }",
			"func (g *Gate) Unverified() bool { return g.suspicions.Load() < 0 }",
		).was("d0c085e").in(restores).shows("a job that was queued at a backup, and has run since, is not started again"),
		one(
			"the epoch of a record is not compared",
			"controlplane/gate/epoch.go",
			"if meta.Word() != epoch {\n\t\treturn ErrFence\n\t}\n\ttx.Expect(record.MetaKey)",
			"_ = meta.Word() != epoch",
		).in(restores).shows("a creation that a restore overtakes is made in the new history"),
		one(
			"a service that is ahead of a restored store is changed",
			"syncer/services/planheld.go",
			"return !s.desired.Covers(s.local.epoch, generation)",
			"return !s.desired.Covers(s.local.epoch, generation) && generation < 0",
		).was("87ed586").in(restores),
		one(
			"a service that a restored store thinks applied is made again",
			"syncer/services/plan.go",
			"if s.lost() {\n\t\treturn heldMissing()\n\t}\n\tapplied",
			"applied",
		).in(restores).shows("a deletion that a restore has lost is not undone until a person decides"),
		one(
			"a service that failed when a restored store was saved is made again",
			"syncer/services/planheld.go",
			"return o.ReadBack != \"\" || s.desired.Generation > 1 && s.desired.Epoch != s.Epoch\n\t}\n}",
			"return false\n\t}\n}",
		).in(restores).shows("a service that failed at a backup, and is deleted since, is not made again"),
		one(
			"a creation from before a restore goes by its old deadline",
			"controlplane/decide/decide.go",
			"if s.Fed.Epoch != s.Epoch {\n\t\tswitch s.Fed.Phase {",
			"if s.Fed.Epoch == \"never\" {\n\t\tswitch s.Fed.Phase {",
		).in(restores).shows("a creation that was under way at a backup stands after its restore"),
		one(
			"each instance begins an epoch after a restore of a backup from before another",
			"controlplane/recovery/epoch.go",
			"meta.Renew(epoch, cmp.Or(found.begun, found.epoch), record.At(now))",
			"meta.Renew(epoch, cmp.Or(\"\", meta.Epoch), record.At(now))",
		).was("2feb5e8").in(restores).shows("a backup that is restored twice begins one epoch each time"),
		one(
			"a report of an orphan orders it away again and again",
			"controlplane/recovery/orphan.go",
			"return self.OrphansAt != 0 && d.Rev > self.OrphansAt",
			"return self.OrphansAt < 0 && d.Rev > self.OrphansAt",
		).was("4c7a6dd").shows("a service that OSCAR makes after its creation was given up goes"),
	}
}

package main

// ofTheSyncer are the defects of what a syncer does with services.
func ofTheSyncer() []defect {
	return []defect{
		one(
			"a tombstone is acknowledged on a list alone",
			"syncer/services/planremoval.go",
			"if !s.fresh {\n\t\treturn decision{act: reread}\n\t}\n\tif wait := s.unanswered()",
			"if wait := s.unanswered()",
		),
		one(
			"a tombstone is acknowledged while a create may still be at work",
			"syncer/services/planremoval.go",
			"if wait := s.unanswered(); wait > 0 {\n\t\treturn s.lookWithin(wait)\n\t}\n\tif s.dropsBuckets()",
			"if s.dropsBuckets()",
		),
		one(
			"a tombstone is acknowledged while the service stands",
			"syncer/services/planremoval.go",
			"case ours:\n\t\treturn planOurEnd(s)",
			"case ours:\n\t\treturn planGone(s, \"\")",
		).shows("a member that is removed goes, and comes again"),
		one(
			"a service is deleted with its bucket's objects",
			"syncer/services/planremoval.go",
			"if s.local.storage {\n\t\tnext = detach\n",
			"if s.local.storage {\n",
		),
		one(
			"ours is told by the annotation and not by the token",
			"syncer/services/observe.go",
			"case uid == d.UID:\n\t\treturn markLost",
			"case uid == d.UID:\n\t\treturn ours",
		),
		one(
			"what is foreign is taken for ours",
			"syncer/services/observe.go",
			"return otherLife\n\t}\n\treturn foreign\n}",
			"return otherLife\n\t}\n\treturn ours\n}",
		),
		one(
			"a vanished service is not made again",
			"syncer/services/plan.go",
			"case (applied || s.stood()) && s.desired.Drift == oscar.DriftReport:",
			"case applied:",
		).shows("a service that vanishes is made again"),
		one(
			"reports on services are not fenced",
			"syncer/services/report.go",
			"tx.ExpectSession(s.session.Lease)\n",
			"",
		).shows("a report on a service that comes after its session is not taken"),
		one(
			"a report may be of an older desired record",
			"syncer/services/report.go",
			"tx.ExpectRevision(desiredKey, v.revision)\n",
			"",
		).shows("a report that a change has overtaken is not taken"),
		one(
			"an answer of OSCAR from before a write is taken for one from after it",
			"syncer/config.go",
			"c.Now = clock.Ordered(c.Now)",
			"_ = clock.Ordered",
		).was("94cea89").shows("a creation succeeds beside a syncer whose clock has coarse steps"),
		one(
			"a service whose buckets were deleted goes on as ready",
			"syncer/services/plan.go",
			"case undisturbed && len(s.local.missing) > 0:\n\t\treturn planDrift(s, s.lacksBuckets())\n",
			"",
		).was("932818e").shows("a bucket that somebody deletes is made again"),
		one(
			"a service that somebody has changed goes on as ready",
			"syncer/services/plan.go",
			"case undisturbed:\n",
			"case applied:\n",
		).shows("a service that somebody changes is repaired"),
		one(
			"the deadline of a create is held against the syncer's clock",
			"syncer/services/clock.go",
			"if d.DeadlineS <= 0 {",
			"if d.DeadlineS <= 0 || !since.IsZero() {",
		).was("5ede600").shows("a creation succeeds beside a syncer with a wrong clock"),
		one(
			"a service is taken for half-created while its POST is at work",
			"syncer/services/plan.go",
			"if s.memory.workingUntil.After(s.now) || s.memory.deleteUntil.After(s.now) || s.now.Sub(s.memory.halfSince) < pollWrite {",
			"if s.memory.halfSince.After(s.now) {",
		).was("4fad7ca").shows("a service that OSCAR does not show at first is created"),
		one(
			"a create that a former process may have sent is not waited for",
			"syncer/services/recentwrites.go",
			"p.writes.assume(name, at)",
			"_ = name",
		).and(
			"controlplane/recovery/orphan.go",
			"if !known || d.Rec.Foreign ||",
			"if known || d.Rec.Foreign ||",
		).shows("a service that OSCAR makes for a syncer that has ended goes"),
		one(
			"a write that is sent is not in the list of writes in doubt",
			"syncer/services/indoubt.go",
			"s.process.inDoubt.writes(service, now)",
			"_ = service",
		).and(
			"controlplane/recovery/orphan.go",
			"if !known || d.Rec.Foreign ||",
			"if known || d.Rec.Foreign ||",
		).shows("a service that OSCAR makes for a syncer that has ended goes"),
		one(
			"a create that was late after its rollback gets no tombstone again",
			"controlplane/recovery/orphan.go",
			"if !known || d.Rec.Foreign ||",
			"if known || d.Rec.Foreign ||",
		).was("640d612").shows("a service that OSCAR makes after its creation was given up goes"),
		one(
			"a paused service is changed",
			"syncer/services/plan.go",
			"case s.Stopped || s.desired.Paused:\n\t\treturn s.waits()\n",
			"",
		).shows("a paused service is changed when the pause ends"),
		one(
			"what waits for the end of a pause is not compared after a restore",
			"syncer/services/plan.go",
			"if o := s.observed; o == nil && s.Epoch == \"\" ||",
			"if o := s.observed; o == nil || o.Phase != record.PhaseHeld ||",
		).was("16cb489").shows("a change that waits for the end of a pause outlives a restore"),
		one(
			"a write without an answer takes no time",
			"syncer/services/forecast.go",
			"case !answered && took <= f.each():",
			"case !answered:",
		).was("1009dfd").shows("a creation is refused on a cluster whose queue is too long"),
		one(
			"a vote counts for a later question, too",
			"controlplane/view/replica.go",
			"return r.Observed.VoteOn(r.DesiredRev)",
			"return r.Observed.Vote",
		).shows("a vote is for the question that it answers"),
		one(
			"a service is reported as ready before it was read back",
			"syncer/services/plan.go",
			"return decision{act: update}\n}",
			"return decision{act: settle}\n}",
		).shows("a paused service is changed when the pause ends"),
		one(
			"a Secret that a deletion leaves is given up after three tries",
			"syncer/services/leftsecret.go",
			"return s.memory.failure.definite || s.memory.tries >= sweepTries",
			"return true",
		).was("7c7da9c").in(seesSecrets).shows("a Secret that is left in a deletion goes when OSCAR makes services again"),
		one(
			"a service whose report a readmission has forgotten gets its lost bucket",
			"syncer/services/plan.go",
			"case s.stood():\n\t\treturn planDrift(s, s.lacksBuckets())",
			"case s.stood():\n\t\treturn planUpdate(s)",
		).was("b8eda58").in(guests).shows("a lost bucket that is only reported stays when its cluster is readmitted"),
		one(
			"the webhook of a service in whose POST OSCAR died is not registered",
			"syncer/services/plan.go",
			"return s.memory.unconfirmed && !s.proven()",
			"return false && !s.proven()",
		).shows("a service in whose POST OSCAR died is ready when its webhook is registered"),
		one(
			"a service whose bucket MinIO has made again goes on as ready",
			"syncer/services/plan.go",
			"case undisturbed && len(s.local.silent) > 0:\n\t\treturn s.tellSilent()\n",
			"",
		).was("539c212").shows("a bucket that MinIO makes again starts jobs when somebody has deleted it"),
		one(
			"a syncer that starts forgets that MinIO has made a bucket again",
			"syncer/services/silentinput.go",
			"if v.observed != nil {\n\t\t\tn.silent = definition.Union(n.silent, v.observed.SilentInputs)\n\t\t}\n",
			"",
		).shows("a bucket that MinIO makes again starts jobs when somebody has deleted it"),
		one(
			"a service that is to be stopped runs on",
			"syncer/services/planrunstate.go",
			"return s.desired.RunState != \"\" && s.local.exposed",
			"return s.desired.RunState == record.RunStarted && s.local.exposed",
		).in(stops),
		one(
			"a service counts as stopped because it is to be",
			"syncer/services/runstate.go",
			"case state == deploymentStopped:",
			"case state == deploymentStopped || v.desired.RunState == record.RunStopped:",
		).in(stops),
	}
}

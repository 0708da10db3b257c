package main

// defect is one change to one file.
type defect struct {
	name, file, old, new string
}

// defects are all of them.
func defects() []defect {
	return []defect{
		{
			"a step of a federation is written without a compare of its record",
			"controlplane/federations/reconcile.go",
			"if kv, ok := v.KV(key); !ok || kv.ModRevision != rev {\n\t\t\t\treturn gate.ErrStale\n\t\t\t}\n\t\t\ttx.Expect(key)\n",
			"",
		},
		{
			"a creation takes locations that are taken",
			"controlplane/federations/create.go",
			"if err := c.LocationFree(v, p); err != nil {\n\t\t\t\t\treturn err\n\t\t\t\t}\n\t\t\t}\n\t\t\ttx.ExpectAbsent(fedKey)",
			"_ = p\n\t\t\t}\n\t\t\ttx.ExpectAbsent(fedKey)",
		},
		{
			"a creation takes names and locations that are taken, and compares nothing",
			"controlplane/federations/create.go",
			"if err := c.NameFree(v, nameKey, d.Fed.GroupID); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n\t\t\tfor _, p := range d.Desired {\n\t\t\t\tif err := c.LocationFree(v, p); err != nil {\n\t\t\t\t\treturn err\n\t\t\t\t}\n\t\t\t}\n\t\t\ttx.ExpectAbsent(fedKey)\n\t\t\ttx.ExpectAbsent(nameKey)\n",
			"",
		},
		{
			"the record of a request is not written",
			"controlplane/request/repeat.go",
			"tx.Put(record.RequestKey(q.Hash), q.record(uid, at, answer))",
			"_ = q.record(uid, at, answer)",
		},
		{
			"a vote that is missing counts as yes",
			"controlplane/decide/decide.go",
			"case v == nil:\n\t\tcase v.Answer == record.VoteYes:\n\t\t\tyes++\n\t\t\tdelay",
			"case v == nil:\n\t\t\tyes++\n\t\tcase v.Answer == record.VoteYes:\n\t\t\tyes++\n\t\t\tdelay",
		},
		{
			"a no is overlooked",
			"controlplane/decide/decide.go",
			"case no > 0 && !bestEffort:",
			"case no > len(s.Replicas) && !bestEffort:",
		},
		{
			"the deadline of votes is never over",
			"controlplane/decide/decide.go",
			"late := deadlinePassed(s)",
			"late := false && deadlinePassed(s)",
		},
		{
			"a federation is ready with its first replica",
			"controlplane/decide/decide.go",
			"case ready == len(s.Replicas):",
			"case ready > 0:",
		},
		{
			"a rollback does not wait for its tombstones",
			"controlplane/decide/decide.go",
			"if r.Desired != nil && !r.Settled() {\n\t\t\treturn Decision{}\n\t\t}\n\t}\n\treturn RolledBack(s)",
			"_ = r\n\t}\n\treturn RolledBack(s)",
		},
		{
			"a change is applied before all have voted",
			"controlplane/decide/change.go",
			"case no == 0 && yes == len(s.Adding):",
			"case no == 0:",
		},
		{
			"a change does not raise the generation",
			"controlplane/decide/change.go",
			"next.Generation++\n",
			"",
		},
		{
			"a tombstone is acknowledged on a list alone",
			"syncer/services/planremoval.go",
			"if !s.fresh {\n\t\treturn decision{act: reread}\n\t}\n\tif wait := s.unanswered()",
			"if wait := s.unanswered()",
		},
		{
			"a tombstone is acknowledged while a create may still be at work",
			"syncer/services/planremoval.go",
			"if wait := s.unanswered(); wait > 0 {\n\t\treturn decision{act: look, after: min(wait, pollWrite)}\n\t}\n\tmade :=",
			"made :=",
		},
		{
			"a tombstone is acknowledged while the service stands",
			"syncer/services/planremoval.go",
			"case ours:\n\t\treturn planOurEnd(s)",
			"case ours:\n\t\treturn planGone(s, \"\")",
		},
		{
			"a service is deleted with its bucket's objects",
			"syncer/services/planremoval.go",
			"if s.local.storage {\n\t\tnext = detach\n\t}",
			"",
		},
		{
			"ours is told by the annotation and not by the token",
			"syncer/services/observe.go",
			"case uid == d.UID:\n\t\treturn markLost",
			"case uid == d.UID:\n\t\treturn ours",
		},
		{
			"what is foreign is taken for ours",
			"syncer/services/observe.go",
			"return foreign\n}",
			"return ours\n}",
		},
		{
			"a vanished service is not made again",
			"syncer/services/plan.go",
			"case applied && s.desired.Drift == driftReport:",
			"case applied:",
		},
		{
			"reports on services are not fenced",
			"syncer/services/report.go",
			"tx.ExpectSession(s.session.Lease)\n",
			"",
		},
		{
			"a report may be of an older desired record",
			"syncer/services/report.go",
			"tx.ExpectRevision(desiredKey, v.revision)\n",
			"",
		},
		{
			"reports on jobs are not fenced",
			"syncer/jobs/report.go",
			"tx.ExpectSession(j.session.Lease)\n\t\t\ttx.ExpectRevision(clusterKey",
			"tx.ExpectRevision(clusterKey",
		},
		{
			"a job is posted again by a syncer that did not post it",
			"syncer/jobs/plan.go",
			"if !s.mine() {\n\t\tswitch shown := s.listedSince(s.sessionStart); {",
			"if !s.mine() && s.now.IsZero() {\n\t\tswitch shown := s.listedSince(s.sessionStart); {",
		},
		{
			"a job that OSCAR was asked for in vain is uncertain for ever",
			"syncer/jobs/plan.go",
			"case state == record.JobUncertain:\n\t\treturn planUncertain(s)",
			"case state == record.JobUncertain:\n\t\treturn decision{act: jobRest}",
		},
		{
			"the same submission makes a second job",
			"controlplane/jobs/commit.go",
			"if s.id, s.err = c.sameRequest(v, s.claim); s.id != \"\" || s.err != nil {",
			"if s.claim.Hash == \"never\" {",
		},
		{
			"a step of a job is written without a compare of its record",
			"controlplane/jobs/step.go",
			"if !p.stands(v) || !reserved.take(p) {\n\t\t\t\t\tcontinue\n\t\t\t\t}\n\t\t\t\ttx.Expect(record.JobKey(p.id()))",
			"if !reserved.take(p) {\n\t\t\t\t\tcontinue\n\t\t\t\t}",
		},
		{
			"a transaction compares nothing",
			"store/plan.go",
			"p.compares = append(p.compares, e.compare())",
			"_ = e.compare()",
		},
		{
			"whether a write was applied is not found out",
			"store/update.go",
			"case ok && kv.ModRevision > last.Revision && requestID(kv.Value) == a.update.RequestID:",
			"case ok && kv.ModRevision < 0:",
		},
		{
			"a mirror that was interrupted stays so",
			"store/follow.go",
			"_ = pause(ctx, wait.NextBackOff()) // the end of ctx is the loop's condition",
			"_ = wait\n\t\t<-ctx.Done()",
		},
	}
}

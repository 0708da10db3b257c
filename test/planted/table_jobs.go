package main

// ofJobs are the defects of jobs, on both sides.
func ofJobs() []defect {
	return []defect{
		one(
			"the same submission makes a second job",
			"controlplane/jobs/acceptor.go",
			"if s.id, s.err = c.sameRequest(v, s.claim); s.id != \"\" || s.err != nil {",
			"if s.claim.Hash == \"never\" {",
		),
		one(
			"a step of a job is written without a compare of its record",
			"controlplane/jobs/step.go",
			"if !p.stands(v) || !reserved.take(p) {\n\t\t\t\t\tcontinue\n\t\t\t\t}\n\t\t\t\ttx.Expect(record.JobKey(p.id()))",
			"if !reserved.take(p) {\n\t\t\t\t\tcontinue\n\t\t\t\t}",
		),
		one(
			"reports on jobs are not fenced",
			"syncer/jobs/report.go",
			"tx.ExpectSession(j.session.Lease)\n\t\t\ttx.ExpectRevision(clusterKey",
			"tx.ExpectRevision(clusterKey",
		).shows("a report on a job that comes after its session is not taken"),
		one(
			"a job is posted again by a syncer that did not post it",
			"syncer/jobs/plan.go",
			"if !s.mine() {\n\t\tswitch shown := s.listedSince(s.sessionStart); {",
			"if !s.mine() && s.now.IsZero() {\n\t\tswitch shown := s.listedSince(s.sessionStart); {",
		),
		one(
			"a job that OSCAR was asked for in vain is uncertain for ever",
			"syncer/jobs/plan.go",
			"case state == record.JobUncertain:\n\t\treturn planUncertain(s)",
			"case state == record.JobUncertain:\n\t\treturn decision{step: stepRest}",
		),
		one(
			"an attempt is withdrawn although OSCAR may have been asked",
			"controlplane/jobs/decide.go",
			"case state.Posted():\n\t\treturn s.onItsWay(state)",
			"case state.Posted() && state != record.JobSubmitting:\n\t\treturn s.onItsWay(state)",
		).shows("a report on a job that comes after its session is not taken"),
		one(
			"what a decision about a job was made from is not compared",
			"controlplane/jobs/step.go",
			"for key := range p.watch {\n\t\t\t\t\ttx.Expect(key)\n\t\t\t\t}\n\t\t\t\t",
			"",
		).and(
			"controlplane/jobs/step.go",
			"for key, rev := range p.watch {\n\t\tif kv, _ := v.KV(key); kv.ModRevision != rev {\n\t\t\treturn false\n\t\t}\n\t}\n\treturn true",
			"return true",
		).shows("a job of a syncer that comes back as it is taken back is started once"),
		one(
			"capacity that is promised is not compared",
			"controlplane/jobs/step.go",
			"tx.Expect(key)\n\t\tif len(rec.Jobs) == 0 {",
			"if len(rec.Jobs) == 0 {",
		),
		one(
			"the promise to a job outlives it",
			"controlplane/jobs/step.go",
			"rec.Jobs = promise(rec.Jobs, *p.was.Reserved, -1)",
			"_ = rec",
		),
		one(
			"a job that has failed is sent again",
			"controlplane/jobs/decide.go",
			"case state == record.JobSucceeded, state == record.JobFailed, state == record.JobCancelled",
			"case state == record.JobFailed:\n\t\treturn s.refused()\n\tcase state == record.JobSucceeded, state == record.JobCancelled",
		),
		one(
			"the event of a job that has ended stays",
			"controlplane/jobs/decide.go",
			"drop: true, dropEvent: true}",
			"drop: true}",
		),
		one(
			"a cancelled job goes on where it was assigned",
			"controlplane/jobs/decide_order.go",
			"return decision{name: \"order_cancel\", next: next, cancel: true}, nil",
			"return decision{name: \"order_cancel\", next: next}, nil",
		),
		one(
			"a job that is replayed keeps the number of its attempt",
			"controlplane/jobs/round.go",
			"record.JobAssigned, next.Attempt+1, nil, p.epoch",
			"record.JobAssigned, max(1, next.Attempt), nil, p.epoch",
		),
		one(
			"the pause of a job ends by the clock of whoever looks",
			"controlplane/jobs/round.go",
			"at := gate.Due(j.ChangedAt, *j.NotBefore, since)",
			"at := j.NotBefore.Time\n\t_ = gate.Due(j.ChangedAt, *j.NotBefore, since)",
		).was("2ef33d1").shows("a job that OSCAR refuses rests, beside a control plane with a wrong clock"),
		one(
			"a job is begun without a claim",
			"syncer/jobs/plan.go",
			"return decision{step: stepClaim, state: record.JobClaimed}",
			"return decision{step: stepBegin, state: record.JobSubmitting}",
		),
		one(
			"a job that a list does not show is taken for gone at once",
			"syncer/jobs/plan.go",
			"if first := m.lastWrite().Add(s.grace); shown.started.Before(first) {\n\t\treturn lookSince(first, s.now)\n\t}",
			"",
		).and(
			"syncer/jobs/plan.go",
			"case m.missing.IsZero() || !shown.started.After(m.missing):\n\t\treturn lookSince(shown.started.Add(s.grace), s.now)\n",
			"",
		).shows("a job whose OSCAR answers late is not taken for gone"),
		one(
			"an answer that was lost is taken for a refusal of the job",
			"syncer/jobs/plan.go",
			"case !m.doubt && m.outcome == postNo:",
			"case m.outcome == postNo || m.outcome == postUnknown || m.outcome == postFailed:",
		).shows("a job that OSCAR makes and answers with an error is started once"),
		one(
			"a syncer that stops does not send a job that it has begun",
			"syncer/jobs/post.go",
			"if err := j.session.Writable(until); err != nil {\n\t\tj.postpone(a, j.cfg.RetryPause)",
			"if err := j.session.Writable(until); err != nil || ctx.Err() != nil {\n\t\tj.postpone(a, j.cfg.RetryPause)",
		).was("892b878").shows("a job of a syncer that stops and starts is started once"),
		one(
			"whether a report of a job was written is not known when the syncer stops",
			"syncer/jobs/report.go",
			"written, err := j.writeToTheEnd(ctx, s, changes)",
			"written, err := j.write(ctx, s, changes)",
		).was("892b878").shows("a job of a syncer that stops and starts is started once"),
		one(
			"what a syncer has begun and not sent is taken for sent in its next session",
			"syncer/jobs/attempt.go",
			"j.deps.Process.unsent(a.key, a.report, s.Epoch)",
			"j.deps.Process == nil",
		).was("d30db3b").shows("a job of a syncer that loses its session is started once"),
		one(
			"a watch of jobs that broke goes on behind jobs that it has not told",
			"controlplane/jobs/watch.go",
			"\t\t\t\tseen--\n",
			"",
		).was("1b62f52").shows("a watch of jobs that breaks tells the last state of each"),
		one(
			"a submission whose outcome is not known is not sent again",
			"api/client/do.go",
			"return brief || e.Err != nil",
			"return e.Err != nil",
		).was("ca652a3").shows("a submission whose answers from etcd are lost is told when it is sent again"),
		one(
			"a job whose report is taken into its record ends twice",
			"controlplane/view/changes.go",
			"from = before.From\n\t} else {\n",
			"_ = before\n\t\tc.moved = append(c.moved, j.Job)\n\t} else {\n",
		).was("ef8479e").shows("a job is counted once"),
	}
}

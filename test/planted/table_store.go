package main

// ofTheStore are the defects of what is said to etcd.
func ofTheStore() []defect {
	return []defect{
		one(
			"a transaction compares nothing",
			"store/plan.go",
			"p.compares = append(p.compares, e.compare())",
			"_ = e.compare()",
		),
		one(
			"whether a write was applied is not found out",
			"store/update.go",
			"kv, ok := now.KV(a.update.Marker)\n\tswitch {",
			"kv, ok := now.KV(a.update.Marker)\n\tif now.Revision > 0 {\n\t\treturn 0, false, nil\n\t}\n\tswitch {",
		).shows("a request whose answers from etcd are lost for a moment is made once"),
		one(
			"a mirror that was interrupted stays so",
			"store/follow.go",
			"_ = pause(ctx, wait.NextBackOff()) // the end of ctx is the loop's condition",
			"_ = wait\n\t\t<-ctx.Done()",
		),
		one(
			"a watch goes on from where it broke, over what was compacted",
			"store/follow.go",
			"if err := f.list(ctx); err != nil {\n\t\treturn false, err\n\t}\n\tw :=",
			"if f.Revision() == 0 {\n\t\tif err := f.list(ctx); err != nil {\n\t\t\treturn false, err\n\t\t}\n\t}\n\tw :=",
		).and(
			"store/follow.go",
			"if err := resp.Err(); err != nil {\n",
			"if err := resp.Err(); err != nil {\n\t\t\tw.apply(nil, resp.CompactRevision)\n",
		).was("3122a33").shows("a control plane that was away from etcd shows what is there"),
		one(
			"a watch begins one revision too late",
			"store/follow.go",
			"watchFrom(w.Revision()), ",
			"watchFrom(w.Revision() + 2), ",
		),
		one(
			"what was deleted while a watch was broken stays in the mirror's copies",
			"store/mirror.go",
			"\t\t\tm.dirty(old.key)\n",
			"",
		),
		one(
			"what has changed while a watch was broken wakes nobody",
			"store/mirror.go",
			"\t\t\tm.dirty(now.key)\n",
			"",
		),
		one(
			"a lost answer is looked up in what the marker holds now, and not in its history",
			"store/update.go",
			"len(a.doubts) == 0 || now.Revision <= a.since",
			"len(a.doubts) >= 0 || now.Revision <= a.since",
		).was("83cfd0f").shows("a request whose answers from etcd are lost for a moment is made once"),
		one(
			"a write whose answer is lost counts as not applied",
			"store/update.go",
			"case !surelyNotApplied(err):\n\t\ta.doubts = append(a.doubts, p)\n\t}",
			"}",
		).and(
			"store/update.go",
			"case ok && kv.ModRevision > last.Revision && requestID(kv.Value) == a.update.RequestID:",
			"case ok && kv.ModRevision < 0:",
		).shows("a request whose answers from etcd are lost for a moment is made once"),
		one(
			"a transaction is sent again although its answer was lost, and decided on the old values",
			"store/update.go",
			"a.forget(next)\n\t\tview = next\n",
			"a.forget(next)\n\t\tif len(a.doubts) == 0 {\n\t\t\tview = next\n\t\t}\n",
		),
		one(
			"nothing that a session writes is fenced",
			"store/txn.go",
			"tx.expect(expectation{key: x.cfg.Key, revision: x.created, kind: expectSession})",
			"_ = x.cfg.Key",
		).shows("a report on a service that comes after its session is not taken"),
		one(
			"what was committed is told as a failure",
			"controlplane/fault/store.go",
			"case errors.Is(err, store.ErrUnknownOutcome): // whatever else it is\n\t\treturn &Error{Code: CodeUnknownOutcome,",
			"case errors.Is(err, store.ErrUnknownOutcome): // whatever else it is\n\t\treturn &Error{Code: CodeUnavailable,",
		).was("0b4011f").shows("a creation whose answers from etcd are lost is told of truly"),
	}
}

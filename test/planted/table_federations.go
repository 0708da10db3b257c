package main

// locationFree is the check of a location that a creation wants.
const locationFree = "if err := c.LocationFree(v, p); err != nil {\n\t\t\treturn err\n\t\t}\n"

// ofFederations are the defects of how federations are created, changed and deleted.
func ofFederations() []defect {
	return []defect{
		one(
			"a step of a federation is written without a compare of its record",
			"controlplane/federations/step.go",
			"if kv, ok := v.KV(key); !ok || kv.ModRevision != s.rev {\n\t\t\treturn gate.ErrStale\n\t\t}\n\t\ttx.Expect(key)\n",
			"_ = key\n",
		),
		one(
			"a creation takes locations that are taken",
			"controlplane/federations/create.go",
			locationFree,
			"",
		),
		one(
			"a creation takes names and locations that are taken, and compares nothing",
			"controlplane/federations/create.go",
			locationFree,
			"",
		).and(
			"controlplane/federations/create.go",
			"tx.ExpectAbsent(key)\n\t\ttx.Put(key, p.Rec)",
			"tx.Put(key, p.Rec)",
		).and(
			"controlplane/federations/create.go",
			"tx.ExpectAbsent(record.FederationKey(first.UID))\n\t\ttx.ExpectAbsent(key)\n\t\treturn c.NameFree(v, key, first.GroupID)",
			"_ = key\n\t\treturn nil",
		),
		one(
			"the record of a request is not written",
			"controlplane/request/repeat.go",
			"tx.Put(record.RequestKey(q.Hash), q.record(uid, at, answer))",
			"_ = q.record(uid, at, answer)",
		),
		one(
			"a vote that is missing counts as yes",
			"controlplane/decide/decide.go",
			"case v == nil:\n\t\tcase v.Answer == record.VoteYes:\n\t\t\tyes++\n\t\t\tdelay",
			"case v == nil:\n\t\t\tyes++\n\t\tcase v.Answer == record.VoteYes:\n\t\t\tyes++\n\t\t\tdelay",
		),
		one(
			"a no is overlooked",
			"controlplane/decide/decide.go",
			"case no > 0 && !bestEffort:",
			"case no > len(s.Replicas) && !bestEffort:",
		),
		one(
			"the deadline of votes is never over",
			"controlplane/decide/decide.go",
			"late := deadlinePassed(s)",
			"late := false && deadlinePassed(s)",
		),
		one(
			"a federation is ready with its first replica",
			"controlplane/decide/decide.go",
			"case ready == len(s.Replicas):",
			"case ready > 0:",
		),
		one(
			"a rollback does not wait for its tombstones",
			"controlplane/decide/decide.go",
			"if r.Desired != nil && !r.Settled() {\n\t\t\treturn Decision{}\n\t\t}\n\t}\n\treturn RolledBack(s)",
			"_ = r\n\t}\n\treturn RolledBack(s)",
		),
		one(
			"a change is applied before all have voted",
			"controlplane/decide/change.go",
			"case no == 0 && yes == len(s.Adding):",
			"case no == 0:",
		),
		one(
			"a change does not raise the generation",
			"controlplane/decide/change.go",
			"next.Generation++\n",
			"",
		),
		one(
			"requests are answered from a state that may be older than they are",
			"controlplane/gate/gate.go",
			"if err := g.state.Wait(ctx, v.Revision); err != nil {\n\t\treturn store.View{}, fault.Crossing(err)\n\t}\n",
			"",
		).was("72f8dcb").shows("a control plane whose watch falls silent shows what is there"),
		one(
			"a repeated request does not find the first",
			"controlplane/request/repeat.go",
			"func (c *Controller) Repetition(v store.View, q Claim) (*Accepted, error) {\n\tkv, ok := v.KV(record.RequestKey(q.Hash))\n\tif !ok {",
			"func (c *Controller) Repetition(v store.View, q Claim) (*Accepted, error) {\n\tkv, ok := v.KV(record.RequestKey(q.Hash))\n\tif !ok || q.keyed {",
		).and(
			"controlplane/request/repeat.go",
			"if !r.Keyed && !c.InFlight(r.UID) {\n\t\treturn nil\n\t}\n\treturn ErrAccepted",
			"_ = r\n\treturn nil",
		),
		one(
			"a refusal hides that an earlier try may have happened",
			"api/client/do.go",
			"if err != nil && unknown != nil && unserved(last) {",
			"if err != nil && unknown != nil && unserved(last) && in.wait < 0 {",
		).was("3d24bbf").shows("a creation whose control plane dies is told of truly"),
		one(
			"the outcome of a refused change that another instance passed by is not looked up",
			"controlplane/federations/change_await.go",
			"if r, err := c.requests.Repeated(ctx, q); err != nil {\n\t\treturn err\n\t} else if r != nil && r.Answer != nil {\n\t\treturn refusal(r)\n\t}\n\tkv, err",
			"kv, err",
		).was("e075d63").shows("a refusal that its control plane has missed is told"),
		one(
			"an attempt of a change writes over the specs of the attempt before",
			"controlplane/federations/change_draft.go",
			"attempt := record.NewUID()",
			"attempt := ch.Claim.RequestID",
		).was("c6ea120").shows("a change while a cluster changes is made"),
		one(
			"a change that waits for votes is looked at again only when something happens",
			"controlplane/decide/decide.go",
			"again = d.Again\n",
			"_ = again\n",
		).was("11d62ec").shows("a change without a vote is refused at its deadline"),
		one(
			"deadlines are held against the clock, and not counted from when they are first seen",
			"controlplane/gate/gate.go",
			"if since.IsZero() || written.IsZero() {",
			"if since.IsZero() || !written.IsZero() {",
		).was("313540e").shows("a creation succeeds beside a control plane with a wrong clock"),
		one(
			"a change is committed with specs that may have been swept",
			"controlplane/federations/sweep.go",
			"found = d.Rec != nil && (d.Rec.Spec",
			"found = d.Rec != nil && d.Rec.Generation < 0 && (d.Rec.Spec",
		).was("71d32da"),
		one(
			"a creation that was refused keeps its name",
			"controlplane/decide/decide.go",
			"d := Decision{Step: StepAbort, Fed: &next, DropName: true, ",
			"d := Decision{Step: StepAbort, Fed: &next, ",
		),
		one(
			"a rollback forgets the replicas that have reported nothing",
			"controlplane/decide/decide.go",
			"d.Put = append(d.Put, PlacedAt(r, tombstone(r.Desired, record.CauseRollback)))",
			"if r.Observed == nil || r.Observed.Phase == record.PhasePrepared {\n\t\t\td.Remove = append(d.Remove, removalOf(r, s))\n\t\t\tcontinue\n\t\t}\n\t\td.Put = append(d.Put, PlacedAt(r, tombstone(r.Desired, record.CauseRollback)))",
		),
		one(
			"a deletion is over with the first acknowledged tombstone",
			"controlplane/decide/decide.go",
			"if left == 0 && all {",
			"if len(part) > 0 && all {",
		),
		one(
			"a member that is removed gets no tombstone",
			"controlplane/decide/change.go",
			"d.Put = append(d.Put, PlacedAt(r, t))\n\t\t\tif removal",
			"d.Remove = append(d.Remove, removalOf(r, s))\n\t\t\tif removal",
		).shows("a member that is removed goes, and comes again"),
		one(
			"it is forgotten which members leave",
			"controlplane/decide/change.go",
			"next.Leaving = append(next.Leaving, r.At)\n\t\t\t}\n\t\t\tcontinue",
			"_ = removal\n\t\t\t}\n\t\t\tcontinue",
		).shows("a member that is removed goes, and comes again"),
		one(
			"a refused change leaves what it had asked for",
			"controlplane/decide/change.go",
			"for _, r := range s.Adding {\n\t\td.Remove = append(d.Remove, removalOf(r, s))\n\t}\n\tfor _, r := range s.Replicas",
			"for _, r := range s.Replicas",
		),
		one(
			"a pause does not reach the members",
			"controlplane/federations/pause.go",
			"rec.Paused = next.Halted()\n",
			"",
		),
		one(
			"the order of a person is written on a federation that has changed since",
			"controlplane/federations/pause.go",
			"return all.put(v, tx)",
			"return putDecision(d, s, tx)",
		).and(
			"controlplane/federations/pause.go",
			"if !ok || rev != p.Rev {",
			"if !ok {",
		).shows("a pause beside a change loses neither"),
		one(
			"a deletion of a failed creation shows one that failed before it",
			"controlplane/federations/delete.go",
			"c.forgetFormer(ctx, p.Rec, opts)\n\t\t\treturn &DeleteResult{}, nil",
			"return &DeleteResult{}, nil",
		).was("575b4a0").shows("a deletion of a failed creation leaves nothing of those before it"),
		one(
			"the owner's token is not passed on with his deletion",
			"controlplane/federations/reconcile.go",
			"return left > 0",
			"return false",
		).was("bc379e4").shows("a volume is deleted with another token of its owner"),
		one(
			"the owner's tokens outlive what ends with them",
			"controlplane/federations/reconcile.go",
			"return left > 0",
			"return true",
		),
		one(
			"the next life is not told of a Secret that the last one left",
			"controlplane/federations/render.go",
			"return last.Rec != nil && last.Rec.SecretLeft",
			"return false",
		).shows("a Secret that stays for want of a token is overwritten by the next creation"),
	}
}

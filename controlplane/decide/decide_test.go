package decide

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

var (
	today  = time.Date(2026, 11, 20, 13, 4, 5, 0, time.UTC)
	policy = Limits{ApplyGrace: 2 * time.Minute, PrefetchGrace: 400 * time.Second, MaxDelay: 15 * time.Minute, KeepResult: 24 * time.Hour}
)

// fixture is a federation of n replicas a, b, c, ... in a phase.
func fixture(n int, phase record.Phase, intent record.Intent) view.Situation {
	until := record.At(today.Add(15 * time.Second))
	s := view.Situation{Now: today, Fed: record.Federation{
		Request: "hash of the creation",
		UID:     "fed", Owner: "cluster_admin", GroupID: "g", Generation: 1, Phase: phase, Deployment: oscar.DeploymentTransactional,
		Deadline: &until, ChangedAt: record.At(today),
	}}
	for i := range n {
		name := string(rune('a' + i))
		s.Fed.Members = append(s.Fed.Members, record.Member{
			Type: "oscar", ClusterID: name, ServiceName: "s" + name, UID: "uid-" + name, Coordinator: i == 0,
		})
		s.Replicas = append(s.Replicas, view.ReplicaState{At: s.Fed.Members[i], Member: i, Alive: true, DesiredRev: 100, Desired: &record.Desired{
			Intent: intent, Federation: "fed", UID: "uid-" + name, Generation: 1, Spec: "spec", Sees: []string{"x/y"}, Deadline: &until,
		}})
	}
	return s
}

func report(s view.Situation, i int, phase record.Phase, mutate ...func(*record.Observed)) view.Situation {
	r := &s.Replicas[i]
	o := &record.Observed{Phase: phase, UID: r.Desired.UID, ObservedGeneration: 1, DesiredRevision: r.DesiredRev}
	for _, m := range mutate {
		m(o)
	}
	r.Observed = o
	return s
}

func votes(s view.Situation, i int, answer string, delay int64, mutate ...func(*record.Observed)) view.Situation {
	phase := record.PhasePrepared
	if answer == record.VoteNo {
		phase = record.PhaseRefused
	}
	return report(s, i, phase, append(mutate, func(o *record.Observed) {
		if o.Vote == nil {
			o.Vote = &record.Vote{Answer: answer, Revision: s.Replicas[i].DesiredRev, DelayS: delay}
		}
	})...)
}

func because(reason record.Reason) func(*record.Observed) {
	return func(o *record.Observed) { o.Reason, o.Message = reason, "because" }
}

func TestDecidePreparing(t *testing.T) {
	late := func(s view.Situation) view.Situation { s.Now = today.Add(time.Hour); return s }
	best := func(s view.Situation) view.Situation { s.Fed.Deployment = oscar.DeploymentBestEffort; return s }
	stale := func(o *record.Observed) { o.Vote = &record.Vote{Answer: record.VoteYes, Revision: 99} }
	otherLife := func(o *record.Observed) { o.UID = "uid-of-an-earlier-attempt" }
	base := func() view.Situation { return fixture(2, record.PhasePreparing, record.IntentPrepare) }
	for name, tt := range map[string]struct {
		s    view.Situation
		step Step
		code fault.Code
	}{
		"nobody voted yet":                          {base(), "", ""},
		"one vote is missing":                       {votes(base(), 0, record.VoteYes, 0), "", ""},
		"all yes commits":                           {votes(votes(base(), 0, record.VoteYes, 0), 1, record.VoteYes, 3), "commit", ""},
		"all yes commits even past the deadline":    {late(votes(votes(base(), 0, record.VoteYes, 0), 1, record.VoteYes, 3)), "commit", ""},
		"a stale vote counts for nothing":           {votes(votes(base(), 0, record.VoteYes, 0), 1, record.VoteYes, 0, stale), "", ""},
		"a vote of another life counts nothing":     {votes(votes(base(), 0, record.VoteYes, 0), 1, record.VoteYes, 0, otherLife), "", ""},
		"one no aborts at once":                     {votes(base(), 1, record.VoteNo, 0, because(record.ReasonDoesNotFit)), "abort", fault.CodeFailedPrecondition},
		"a taken name is already_exists":            {votes(base(), 1, record.VoteNo, 0, because(record.ReasonNameTaken)), "abort", fault.CodeAlreadyExists},
		"a foreign bucket is already_exists":        {votes(base(), 1, record.VoteNo, 0, because(record.ReasonForeignBucket)), "abort", fault.CodeAlreadyExists},
		"a bucket that was left is already_exists":  {votes(base(), 1, record.VoteNo, 0, because(record.ReasonBucketLeft)), "abort", fault.CodeAlreadyExists},
		"taken and unfit is failed_precondition":    {votes(votes(base(), 0, record.VoteNo, 0, because(record.ReasonNameTaken)), 1, record.VoteNo, 0, because(record.ReasonDoesNotFit)), "abort", fault.CodeFailedPrecondition},
		"silence until the deadline is unavailable": {late(votes(base(), 0, record.VoteYes, 0)), "abort", fault.CodeUnavailable},
		"a queue beyond the limit is unavailable":   {votes(votes(base(), 0, record.VoteYes, 0), 1, record.VoteYes, 1000), "abort", fault.CodeUnavailable},
		"best effort waits for all":                 {best(votes(base(), 0, record.VoteNo, 0)), "", ""},
		"best effort goes on with those who can":    {best(votes(votes(base(), 0, record.VoteYes, 0), 1, record.VoteNo, 0)), "commit", ""},
		"best effort does not wait for the silent":  {late(best(votes(base(), 0, record.VoteYes, 0))), "commit", ""},
		"best effort of nobody is refused":          {best(votes(votes(base(), 0, record.VoteNo, 0, because(record.ReasonDoesNotFit)), 1, record.VoteNo, 0, because(record.ReasonDoesNotFit))), "abort", fault.CodeFailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(tt.s, policy)
			if d.Step != tt.step {
				t.Fatalf("step %q, want %q", d.Step, tt.step)
			}
			if d.Step == "" && d.Again.IsZero() {
				t.Error("nothing wakes the worker at the deadline")
			}
			if d.Step == "abort" {
				if fault.Code(d.Fed.Code) != tt.code {
					t.Errorf("code %q, want %q", d.Fed.Code, tt.code)
				}
				if len(d.Remove) != 2 || len(d.Put) != 0 || !d.DropName || d.Request == "" || d.Fed.Detail == "" {
					t.Errorf("an abort must remove everything, free the name and answer: %+v", d)
				}
			}
		})
	}
}

func TestCommitGivesTheSlowestQueueItsTime(t *testing.T) {
	s := votes(votes(fixture(2, record.PhasePreparing, record.IntentPrepare), 0, record.VoteYes, 600), 1, record.VoteYes, 0)
	d := Decide(s, policy)
	want := record.At(today.Add(15*time.Minute + 2*time.Minute))
	if diff := cmp.Diff(&want, d.Fed.Deadline); diff != "" {
		t.Error("apply deadline", diff)
	}
	for _, p := range d.Put {
		if p.Rec.Intent != record.IntentApply || p.Rec.Deadline == nil || !p.Rec.Deadline.Equal(want.Time) {
			t.Errorf("%s: %+v", p.Cluster, p.Rec)
		}
	}
	s.Fed.Prefetch = true
	if d := Decide(s, policy); !d.Fed.Deadline.Equal(want.Add(400 * time.Second)) {
		t.Error("prefetched images get their time", d.Fed.Deadline)
	}
}

// TestNoVoteMovesTheDeadlineOfTheOthersFar: with best effort one that is late aborts nothing, whatever queue it claims.
func TestNoVoteMovesTheDeadlineOfTheOthersFar(t *testing.T) {
	for _, delay := range []int64{int64(policy.MaxDelay/time.Second) + 1, 9_000_000_000, math.MaxInt64} {
		s := votes(votes(fixture(3, record.PhasePreparing, record.IntentPrepare), 0, record.VoteYes, 0), 1, record.VoteYes, delay)
		s.Fed.Deployment, s.Now = oscar.DeploymentBestEffort, today.Add(time.Hour)
		d := Decide(s, policy)
		if d.Step != StepCommit {
			t.Fatalf("%d: step %q", delay, d.Step)
		}
		until, most := d.Put[0].Rec.Deadline, s.Now.Add(2*policy.MaxDelay+policy.ApplyGrace)
		if until == nil || until.Before(s.Now) || until.After(most) || d.Put[0].Rec.DeadlineS <= 0 {
			t.Errorf("with a queue of %d s the deadline of another is %v, at most %v is expected", delay, until, most)
		}
	}
}

func TestBestEffortKeepsThePrepareOfTheOthers(t *testing.T) {
	s := votes(votes(fixture(2, record.PhasePreparing, record.IntentPrepare), 0, record.VoteYes, 0), 1, record.VoteNo, 0)
	s.Fed.Deployment = oscar.DeploymentBestEffort
	d := Decide(s, policy)
	if d.Fed.Phase != record.PhaseReady || d.Put[0].Rec.Intent != record.IntentApply ||
		d.Put[1].Rec.Intent != record.IntentPrepare || d.Put[1].Rec.Deadline != nil {
		t.Errorf("%+v", d)
	}
	// Later the replica that refused votes yes to the record as it is now.
	s = report(fixture(2, record.PhaseReady, record.IntentApply), 0, record.PhaseReady)
	s.Replicas[1].Desired.Intent = record.IntentPrepare
	s = votes(s, 1, record.VoteYes, 0)
	if d = Decide(s, policy); d.Step != "join" || len(d.Put) != 1 || d.Put[0].Cluster != "b" || d.Put[0].Rec.Intent != record.IntentApply {
		t.Errorf("%+v", d)
	}
}

func TestDecideApplying(t *testing.T) {
	base := func() view.Situation { return fixture(2, record.PhaseApplying, record.IntentApply) }
	late := func(s view.Situation) view.Situation { s.Now = today.Add(time.Hour); return s }
	old := func(o *record.Observed) { o.DesiredRevision = 99 }
	for name, tt := range map[string]struct {
		s    view.Situation
		step Step
	}{
		"nothing reported":                 {base(), ""},
		"one ready":                        {report(base(), 0, record.PhaseReady), ""},
		"all ready":                        {report(report(base(), 0, record.PhaseReady), 1, record.PhaseReady), "ready"},
		"a report about an older record":   {report(report(base(), 0, record.PhaseReady), 1, record.PhaseReady, old), ""},
		"one failed":                       {report(report(base(), 0, record.PhaseReady), 1, record.PhaseFailed), "roll_back"},
		"one held":                         {report(report(base(), 0, record.PhaseReady), 1, record.PhaseHeld), "roll_back"},
		"an old failure is no failure":     {report(base(), 1, record.PhaseFailed, old), ""},
		"the deadline":                     {late(report(base(), 0, record.PhaseReady)), "roll_back"},
		"all ready is ready, however late": {late(report(report(base(), 0, record.PhaseReady), 1, record.PhaseReady)), "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := Decide(tt.s, policy); d.Step != tt.step {
				t.Fatalf("step %q, want %q", d.Step, tt.step)
			}
		})
	}
}

func TestRollBackOrdersTheDeletionOfExactlyTheseLives(t *testing.T) {
	s := report(report(fixture(2, record.PhaseApplying, record.IntentApply), 0, record.PhaseReady), 1, record.PhaseFailed, func(o *record.Observed) {
		o.Reason, o.Operation, o.Status, o.Message = record.ReasonCreateFailed, "create", 500, "no such provider"
	})
	d := Decide(s, policy)
	if d.Fed.Phase != record.PhaseRollingBack || d.Request != "" || d.DropName {
		t.Errorf("%+v", d)
	}
	if want := "b/sb: create answered 500"; d.Fed.Detail != want {
		t.Errorf("detail %q, want %q", d.Fed.Detail, want)
	}
	for i, p := range d.Put {
		if !p.Rec.Tombstone() || p.Rec.Cause != record.CauseRollback || p.Rec.Spec != "" || p.Rec.UID != s.Fed.Members[i].UID || p.Rec.Generation != 1 {
			t.Errorf("%+v", p.Rec)
		}
	}
	if d.Fed.Members[0].Cause != nil || d.Fed.Members[1].Cause == nil || d.Fed.Members[1].Cause.Status != 500 {
		t.Errorf("causes: %+v", d.Fed.Members)
	}
	if s.Fed.Members[1].Cause != nil {
		t.Error("the situation was changed")
	}
}

func TestDecideRollingBack(t *testing.T) {
	base := func() view.Situation {
		s := fixture(3, record.PhaseRollingBack, record.IntentDelete)
		s.Fed.Deadline = nil
		return s
	}
	deletedIt := func(o *record.Observed) { o.Operation = "delete" }
	away := func(s view.Situation, i int) view.Situation { s.Replicas[i].Alive = false; return s }
	if d := Decide(report(base(), 0, record.PhaseDeleted), policy); d.Step != "" {
		t.Errorf("it must wait for the reachable ones, not %q", d.Step)
	}
	d := Decide(away(report(report(base(), 0, record.PhaseDeleted, deletedIt), 1, record.PhaseDeleted), 2), policy)
	if d.Step != "rolled_back" || len(d.Remove) != 2 || !d.DropName || d.Request == "" {
		t.Fatalf("%+v", d)
	}
	var got []record.RollbackState
	for _, m := range d.Fed.Members {
		got = append(got, m.Rollback.State)
	}
	if diff := cmp.Diff([]record.RollbackState{record.RollbackDeleted, record.RollbackNotCreated, record.RollbackPending}, got); diff != "" {
		t.Error(diff)
	}
	for _, r := range d.Remove {
		if r.Deleted == nil {
			t.Error("an acknowledged tombstone is remembered", r)
		}
	}
	wedged := Decide(report(report(report(base(), 0, record.PhaseDeleted), 1, record.PhaseWedged), 2, record.PhaseDeleted), policy)
	if wedged.Step != "rolled_back" || wedged.Fed.Members[1].Rollback.State != record.RollbackFailed || len(wedged.Remove) != 2 {
		t.Errorf("a wedged one holds nothing up and keeps its tombstone: %+v", wedged)
	}
}

// What a transaction has no room for is removed in the next one, and the outcome comes last.
func TestARollbackWithManyBucketsGoesInParts(t *testing.T) {
	s := fixture(2, record.PhaseRollingBack, record.IntentDelete)
	s.Fed.Deadline = nil
	for i := range s.Replicas {
		s = report(s, i, record.PhaseDeleted, func(o *record.Observed) {
			o.Operation, o.BucketsMade = "delete", []string{strings.Repeat("b", deletedBytes-2<<10)}
		})
	}
	d := Decide(s, policy)
	if d.Step != "partly_rolled_back" || d.Fed.Phase != record.PhaseRollingBack || len(d.Remove) != 1 || d.DropName || d.Request != "" {
		t.Fatalf("%+v", d)
	}
	if first := d.Fed.Members[0].Rollback; first == nil || first.State != record.RollbackDeleted || d.Fed.Members[1].Rollback != nil {
		t.Errorf("%+v", d.Fed.Members)
	}
	s.Fed, s.Replicas[0].Desired, s.Replicas[0].Observed = *d.Fed, nil, nil
	if d = Decide(s, policy); d.Step != "rolled_back" || len(d.Remove) != 1 || d.Fed.Members[0].Rollback.State != record.RollbackDeleted {
		t.Errorf("%+v", d)
	}
}

func TestResultIsForgottenWhenItsLastTombstoneIsGone(t *testing.T) {
	s := fixture(2, record.PhaseRolledBack, record.IntentDelete)
	s.Fed.Deadline = nil
	s.Replicas[0].Desired = nil
	s.Age = 48 * time.Hour
	if d := Decide(s, policy); d.Step != "" || !d.Again.IsZero() {
		t.Errorf("a pending tombstone keeps its federation: %+v", d)
	}
	d := Decide(report(s, 1, record.PhaseDeleted), policy)
	if d.Step != "acknowledged" || len(d.Remove) != 1 {
		t.Errorf("%+v", d)
	}
	s.Replicas[1].Desired, s.Replicas[1].Observed = nil, nil
	if d := Decide(s, policy); !d.RemoveFed {
		t.Errorf("%+v", d)
	}
	s.Age = time.Hour
	if d := Decide(s, policy); d.Step != "" || !d.Again.Equal(s.Now.Add(23*time.Hour)) {
		t.Errorf("%+v", d)
	}
}

func TestDecideDeleting(t *testing.T) {
	base := func() view.Situation {
		s := fixture(3, record.PhaseDeleting, record.IntentDelete)
		s.Fed.Deadline = nil
		return s
	}
	all := report(report(base(), 0, record.PhaseDeleted), 1, record.PhaseDeleted)
	if d := Decide(all, policy); d.Step != "" {
		t.Errorf("the last acknowledgement removes all, not %q before it", d.Step)
	}
	if d := Decide(report(all, 2, record.PhaseDeleted), policy); d.Step != "deleted" || !d.RemoveFed || len(d.Remove) != 3 {
		t.Errorf("%+v", d)
	}
	away := report(report(base(), 0, record.PhaseDeleted), 1, record.PhaseDeleted)
	away.Replicas[2].Alive = false
	d := Decide(away, policy)
	if d.Step != "partly_deleted" || d.RemoveFed || len(d.Remove) != 2 {
		t.Errorf("a cluster that is away must not hold the names of the others: %+v", d)
	}
}

func TestAChangeThatWaitsForVotesEndsAtItsDeadlineWhoeverElseLeaves(t *testing.T) {
	s := report(report(fixture(2, record.PhaseReady, record.IntentApply), 0, record.PhaseReady), 1, record.PhaseReady)
	until := record.At(today.Add(15 * time.Second))
	added := record.Member{Type: "oscar", ClusterID: "d", ServiceName: "sd", UID: "uid-d"}
	s.Fed.Change = &record.Change{RequestID: "r", Members: append(s.Fed.Members, added), Deadline: until}
	s.Adding = []view.ReplicaState{{At: added, Member: -1, Alive: true, DesiredRev: 7, Desired: &record.Desired{Intent: record.IntentPrepare, UID: "uid-d"}}}
	gone := record.Member{Type: "oscar", ClusterID: "c", ServiceName: "sc", UID: "uid-c"}
	s.Leaving = []view.ReplicaState{{At: gone, Member: -1, DesiredRev: 8, Desired: &record.Desired{Intent: record.IntentDelete, UID: "uid-c"}}}
	if d := Decide(s, policy); d.Step != "" || !d.Again.Equal(until.Time) {
		t.Errorf("nothing wakes the worker at the change's deadline: %+v", d)
	}
	s.Now = until.Time
	if d := Decide(s, policy); d.Step != "refuse_change" || d.Fed.Change != nil || d.Fed.Refused == nil || len(d.Remove) != 1 {
		t.Errorf("%+v", d)
	}
}

// A replica whose syncer reads no parts, or none any more, gets a spec without them; one that is away
// does when it is back, and a change comes first.
func TestPartsThatASyncerDoesNotRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mutate func(s *view.Situation, b *view.ReplicaState)
		want   string
	}{
		"it reads none":               {func(*view.Situation, *view.ReplicaState) {}, "uid-b"},
		"it is to be created":         {func(_ *view.Situation, b *view.ReplicaState) { b.Desired.Intent = record.IntentPrepare }, "uid-b"},
		"it reads them":               {func(_ *view.Situation, b *view.ReplicaState) { b.ReadsParts = true }, ""},
		"it is away":                  {func(_ *view.Situation, b *view.ReplicaState) { b.Alive = false }, ""},
		"its cluster is paused":       {func(_ *view.Situation, b *view.ReplicaState) { b.Stopped = true }, ""},
		"it has one without":          {func(_ *view.Situation, b *view.ReplicaState) { b.Desired.Spec = record.WholeSpecName("spec") }, ""},
		"it is to go":                 {func(_ *view.Situation, b *view.ReplicaState) { b.Desired.Intent = record.IntentDelete }, ""},
		"the federation has no parts": {func(s *view.Situation, _ *view.ReplicaState) { s.Fed.Parts = nil }, ""},
		"a change is under way":       {func(s *view.Situation, _ *view.ReplicaState) { s.Fed.Change = &record.Change{Members: s.Fed.Members} }, ""},
	} {
		s := fixture(2, record.PhaseReady, record.IntentApply)
		s.Fed.Parts = []string{"part"}
		s.Replicas[0].ReadsParts = true
		tt.mutate(&s, &s.Replicas[1])
		if d := Decide(s, policy); d.Whole != tt.want || (d.Step == "whole") != (tt.want != "") {
			t.Errorf("%s: step %q for %q, want %q", name, d.Step, d.Whole, tt.want)
		}
	}
}

// A record that only a person can have taken out of etcd, or written there, makes no step fail: what there is goes on.
func TestWhatAPersonHasTakenOutOfEtcdIsLeftOut(t *testing.T) {
	ready := fixture(2, record.PhaseReady, record.IntentApply)
	ready.Replicas[1].Desired = nil
	for name, d := range map[string]Decision{
		"a deletion": Deletion(ready, DeletionOrders{RequestID: "order"}),
		"a change":   ApplyChange(ready, NewProposal(ready.Fed, nil)),
	} {
		if len(d.Put) != 1 || d.Put[0].Service != "sa" {
			t.Errorf("%s: %+v", name, d.Put)
		}
	}
	preparing := fixture(2, record.PhasePreparing, record.IntentPrepare)
	preparing.Replicas[1].Desired = nil
	if d := Abort(preparing, refusals); len(d.Remove) != 2 || d.Remove[1] != (removal{Cluster: "b", Service: "sb"}) {
		t.Errorf("a refusal: %+v", d.Remove)
	}
	endless := fixture(2, record.PhaseApplying, record.IntentApply)
	endless.Fed.Deadline = nil
	if d := Decide(endless, policy); d.Step != "" || !d.Again.IsZero() {
		t.Errorf("a creation without a deadline: %+v", d)
	}
	if all := Batch([]view.Situation{fixture(1, record.PhaseReady, record.IntentApply), votes(fixture(1, record.PhasePreparing, record.IntentPrepare), 0, record.VoteNo, 0)}, 1, policy); all[0].Step != "" || all[1].Step != StepAbort {
		t.Errorf("a batch of which one is ready: %+v", all)
	}
}

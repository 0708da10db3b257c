package controlplane

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

var (
	today  = time.Date(2026, 11, 20, 13, 4, 5, 0, time.UTC)
	policy = limits{applyGrace: 2 * time.Minute, prefetchGrace: 400 * time.Second, maxDelay: 15 * time.Minute, keepResult: 24 * time.Hour}
)

// fixture is a federation of n replicas a, b, c, ... in a phase.
func fixture(n int, phase record.Phase, intent record.Intent) situation {
	until := record.At(today.Add(15 * time.Second))
	s := situation{now: today, fed: record.Federation{
		Request: "hash of the creation",
		UID:     "fed", Owner: "cluster_admin", GroupID: "g", Generation: 1, Phase: phase, Deployment: oscar.DeploymentTransactional,
		Deadline: &until, ChangedAt: record.At(today),
	}}
	for i := range n {
		name := string(rune('a' + i))
		s.fed.Members = append(s.fed.Members, record.Member{
			Type: "oscar", ClusterID: name, ServiceName: "s" + name, UID: "uid-" + name, Coordinator: i == 0,
		})
		s.replicas = append(s.replicas, replicaState{at: s.fed.Members[i], member: i, alive: true, desiredRev: 100, desired: &record.Desired{
			Intent: intent, Federation: "fed", UID: "uid-" + name, Generation: 1, Spec: "spec", Sees: []string{"x/y"}, Deadline: &until,
		}})
	}
	return s
}

func (s situation) report(i int, phase record.Phase, mutate ...func(*record.Observed)) situation {
	r := &s.replicas[i]
	o := &record.Observed{Phase: phase, UID: r.desired.UID, ObservedGeneration: 1, DesiredRevision: r.desiredRev}
	for _, m := range mutate {
		m(o)
	}
	r.observed = o
	return s
}

func (s situation) votes(i int, answer string, delay int64, mutate ...func(*record.Observed)) situation {
	phase := record.PhasePrepared
	if answer == record.VoteNo {
		phase = record.PhaseRefused
	}
	return s.report(i, phase, append(mutate, func(o *record.Observed) {
		if o.Vote == nil {
			o.Vote = &record.Vote{Answer: answer, Revision: s.replicas[i].desiredRev, DelayS: delay}
		}
	})...)
}

func because(reason record.Reason) func(*record.Observed) {
	return func(o *record.Observed) { o.Reason, o.Message = reason, "because" }
}

func TestDecidePreparing(t *testing.T) {
	late := func(s situation) situation { s.now = today.Add(time.Hour); return s }
	best := func(s situation) situation { s.fed.Deployment = oscar.DeploymentBestEffort; return s }
	stale := func(o *record.Observed) { o.Vote = &record.Vote{Answer: record.VoteYes, Revision: 99} }
	otherLife := func(o *record.Observed) { o.UID = "uid-of-an-earlier-attempt" }
	base := func() situation { return fixture(2, record.PhasePreparing, record.IntentPrepare) }
	for name, tt := range map[string]struct {
		s    situation
		step string
		code Code
	}{
		"nobody voted yet":                          {base(), "", ""},
		"one vote is missing":                       {base().votes(0, record.VoteYes, 0), "", ""},
		"all yes commits":                           {base().votes(0, record.VoteYes, 0).votes(1, record.VoteYes, 3), "commit", ""},
		"all yes commits even past the deadline":    {late(base().votes(0, record.VoteYes, 0).votes(1, record.VoteYes, 3)), "commit", ""},
		"a stale vote counts for nothing":           {base().votes(0, record.VoteYes, 0).votes(1, record.VoteYes, 0, stale), "", ""},
		"a vote of another life counts nothing":     {base().votes(0, record.VoteYes, 0).votes(1, record.VoteYes, 0, otherLife), "", ""},
		"one no aborts at once":                     {base().votes(1, record.VoteNo, 0, because(record.ReasonDoesNotFit)), "abort", CodeFailedPrecondition},
		"a taken name is already_exists":            {base().votes(1, record.VoteNo, 0, because(record.ReasonNameTaken)), "abort", CodeAlreadyExists},
		"a foreign bucket is already_exists":        {base().votes(1, record.VoteNo, 0, because(record.ReasonForeignBucket)), "abort", CodeAlreadyExists},
		"taken and unfit is failed_precondition":    {base().votes(0, record.VoteNo, 0, because(record.ReasonNameTaken)).votes(1, record.VoteNo, 0, because(record.ReasonDoesNotFit)), "abort", CodeFailedPrecondition},
		"silence until the deadline is unavailable": {late(base().votes(0, record.VoteYes, 0)), "abort", CodeUnavailable},
		"a queue beyond the limit is unavailable":   {base().votes(0, record.VoteYes, 0).votes(1, record.VoteYes, 1000), "abort", CodeUnavailable},
		"best effort waits for all":                 {best(base().votes(0, record.VoteNo, 0)), "", ""},
		"best effort goes on with those who can":    {best(base().votes(0, record.VoteYes, 0).votes(1, record.VoteNo, 0)), "commit", ""},
		"best effort does not wait for the silent":  {late(best(base().votes(0, record.VoteYes, 0))), "commit", ""},
		"best effort of nobody is refused":          {best(base().votes(0, record.VoteNo, 0, because(record.ReasonDoesNotFit)).votes(1, record.VoteNo, 0, because(record.ReasonDoesNotFit))), "abort", CodeFailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(tt.s, policy)
			if d.name != tt.step {
				t.Fatalf("step %q, want %q", d.name, tt.step)
			}
			if d.name == "" && d.again.IsZero() {
				t.Error("nothing wakes the decider at the deadline")
			}
			if d.name == "abort" {
				if Code(d.fed.Code) != tt.code {
					t.Errorf("code %q, want %q", d.fed.Code, tt.code)
				}
				if len(d.remove) != 2 || len(d.put) != 0 || !d.dropName || d.request == "" || d.fed.Detail == "" {
					t.Errorf("an abort must remove everything, free the name and answer: %+v", d)
				}
			}
		})
	}
}

func TestCommitGivesTheSlowestQueueItsTime(t *testing.T) {
	s := fixture(2, record.PhasePreparing, record.IntentPrepare).votes(0, record.VoteYes, 600).votes(1, record.VoteYes, 0)
	d := decide(s, policy)
	want := record.At(today.Add(15*time.Minute + 2*time.Minute))
	if diff := cmp.Diff(&want, d.fed.Deadline); diff != "" {
		t.Error("apply deadline", diff)
	}
	for _, p := range d.put {
		if p.rec.Intent != record.IntentApply || p.rec.Deadline == nil || !p.rec.Deadline.Equal(want.Time) {
			t.Errorf("%s: %+v", p.cluster, p.rec)
		}
	}
	s.fed.Prefetch = true
	if d := decide(s, policy); !d.fed.Deadline.Equal(want.Add(400 * time.Second)) {
		t.Error("prefetched images get their time", d.fed.Deadline)
	}
}

func TestBestEffortKeepsThePrepareOfTheOthers(t *testing.T) {
	s := fixture(2, record.PhasePreparing, record.IntentPrepare).votes(0, record.VoteYes, 0).votes(1, record.VoteNo, 0)
	s.fed.Deployment = oscar.DeploymentBestEffort
	d := decide(s, policy)
	if d.fed.Phase != record.PhaseReady || d.put[0].rec.Intent != record.IntentApply ||
		d.put[1].rec.Intent != record.IntentPrepare || d.put[1].rec.Deadline != nil {
		t.Errorf("%+v", d)
	}
	// Later the refusing one says yes to the record as it now stands.
	s = fixture(2, record.PhaseReady, record.IntentApply).report(0, record.PhaseReady)
	s.replicas[1].desired.Intent = record.IntentPrepare
	s = s.votes(1, record.VoteYes, 0)
	if d = decide(s, policy); d.name != "join" || len(d.put) != 1 || d.put[0].cluster != "b" || d.put[0].rec.Intent != record.IntentApply {
		t.Errorf("%+v", d)
	}
}

func TestDecideApplying(t *testing.T) {
	base := func() situation { return fixture(2, record.PhaseApplying, record.IntentApply) }
	late := func(s situation) situation { s.now = today.Add(time.Hour); return s }
	old := func(o *record.Observed) { o.DesiredRevision = 99 }
	for name, tt := range map[string]struct {
		s    situation
		step string
	}{
		"nothing reported":                 {base(), ""},
		"one ready":                        {base().report(0, record.PhaseReady), ""},
		"all ready":                        {base().report(0, record.PhaseReady).report(1, record.PhaseReady), "ready"},
		"a report about an older record":   {base().report(0, record.PhaseReady).report(1, record.PhaseReady, old), ""},
		"one failed":                       {base().report(0, record.PhaseReady).report(1, record.PhaseFailed), "roll_back"},
		"one held":                         {base().report(0, record.PhaseReady).report(1, record.PhaseHeld), "roll_back"},
		"an old failure is no failure":     {base().report(1, record.PhaseFailed, old), ""},
		"the deadline":                     {late(base().report(0, record.PhaseReady)), "roll_back"},
		"all ready is ready, however late": {late(base().report(0, record.PhaseReady).report(1, record.PhaseReady)), "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := decide(tt.s, policy); d.name != tt.step {
				t.Fatalf("step %q, want %q", d.name, tt.step)
			}
		})
	}
}

func TestRollBackOrdersTheDeletionOfExactlyTheseLives(t *testing.T) {
	s := fixture(2, record.PhaseApplying, record.IntentApply).report(0, record.PhaseReady).
		report(1, record.PhaseFailed, func(o *record.Observed) {
			o.Reason, o.Operation, o.Status, o.Message = record.ReasonCreateFailed, "create", 500, "no such provider"
		})
	d := decide(s, policy)
	if d.fed.Phase != record.PhaseRollingBack || d.request != "" || d.dropName {
		t.Errorf("%+v", d)
	}
	if want := "b/sb: create answered 500"; d.fed.Detail != want {
		t.Errorf("detail %q, want %q", d.fed.Detail, want)
	}
	for i, p := range d.put {
		if !p.rec.Tombstone() || p.rec.Cause != record.CauseRollback || p.rec.Spec != "" || p.rec.UID != s.fed.Members[i].UID || p.rec.Generation != 1 {
			t.Errorf("%+v", p.rec)
		}
	}
	if d.fed.Members[0].Cause != nil || d.fed.Members[1].Cause == nil || d.fed.Members[1].Cause.Status != 500 {
		t.Errorf("causes: %+v", d.fed.Members)
	}
	if s.fed.Members[1].Cause != nil {
		t.Error("the situation was changed")
	}
}

func TestDecideRollingBack(t *testing.T) {
	base := func() situation {
		s := fixture(3, record.PhaseRollingBack, record.IntentDelete)
		s.fed.Deadline = nil
		return s
	}
	deletedIt := func(o *record.Observed) { o.Operation = "delete" }
	away := func(s situation, i int) situation { s.replicas[i].alive = false; return s }
	if d := decide(base().report(0, record.PhaseDeleted), policy); d.name != "" {
		t.Errorf("it must wait for the reachable ones, not %q", d.name)
	}
	d := decide(away(base().report(0, record.PhaseDeleted, deletedIt).report(1, record.PhaseDeleted), 2), policy)
	if d.name != "rolled_back" || len(d.remove) != 2 || !d.dropName || d.request == "" {
		t.Fatalf("%+v", d)
	}
	var got []record.RollbackState
	for _, m := range d.fed.Members {
		got = append(got, m.Rollback.State)
	}
	if diff := cmp.Diff([]record.RollbackState{record.RollbackDeleted, record.RollbackNotCreated, record.RollbackPending}, got); diff != "" {
		t.Error(diff)
	}
	for _, r := range d.remove {
		if r.deleted == nil {
			t.Error("an acknowledged tombstone is remembered", r)
		}
	}
	wedged := decide(base().report(0, record.PhaseDeleted).report(1, record.PhaseWedged).report(2, record.PhaseDeleted), policy)
	if wedged.name != "rolled_back" || wedged.fed.Members[1].Rollback.State != record.RollbackFailed || len(wedged.remove) != 2 {
		t.Errorf("a wedged one holds nothing up and keeps its tombstone: %+v", wedged)
	}
}

func TestResultIsForgottenWhenItsLastTombstoneIsGone(t *testing.T) {
	s := fixture(2, record.PhaseRolledBack, record.IntentDelete)
	s.fed.Deadline = nil
	s.replicas[0].desired = nil
	s.age = 48 * time.Hour
	if d := decide(s, policy); d.name != "" || !d.again.IsZero() {
		t.Errorf("a pending tombstone keeps its federation: %+v", d)
	}
	d := decide(s.report(1, record.PhaseDeleted), policy)
	if d.name != "acknowledged" || len(d.remove) != 1 {
		t.Errorf("%+v", d)
	}
	s.replicas[1].desired, s.replicas[1].observed = nil, nil
	if d := decide(s, policy); !d.removeFed {
		t.Errorf("%+v", d)
	}
	s.age = time.Hour
	if d := decide(s, policy); d.name != "" || !d.again.Equal(s.now.Add(23*time.Hour)) {
		t.Errorf("%+v", d)
	}
}

func TestDecideDeleting(t *testing.T) {
	base := func() situation {
		s := fixture(3, record.PhaseDeleting, record.IntentDelete)
		s.fed.Deadline = nil
		return s
	}
	all := base().report(0, record.PhaseDeleted).report(1, record.PhaseDeleted)
	if d := decide(all, policy); d.name != "" {
		t.Errorf("the last acknowledgement removes all, not %q before it", d.name)
	}
	if d := decide(all.report(2, record.PhaseDeleted), policy); d.name != "deleted" || !d.removeFed || len(d.remove) != 3 {
		t.Errorf("%+v", d)
	}
	away := base().report(0, record.PhaseDeleted).report(1, record.PhaseDeleted)
	away.replicas[2].alive = false
	d := decide(away, policy)
	if d.name != "partly_deleted" || d.removeFed || len(d.remove) != 2 {
		t.Errorf("a cluster that is away must not hold the names of the others: %+v", d)
	}
}

func TestAChangeThatWaitsForVotesEndsAtItsDeadlineWhoeverElseLeaves(t *testing.T) {
	s := fixture(2, record.PhaseReady, record.IntentApply).report(0, record.PhaseReady).report(1, record.PhaseReady)
	until := record.At(today.Add(15 * time.Second))
	added := record.Member{Type: "oscar", ClusterID: "d", ServiceName: "sd", UID: "uid-d"}
	s.fed.Change = &record.Change{RequestID: "r", Members: append(s.fed.Members, added), Deadline: until}
	s.adding = []replicaState{{at: added, member: -1, alive: true, desiredRev: 7, desired: &record.Desired{Intent: record.IntentPrepare, UID: "uid-d"}}}
	gone := record.Member{Type: "oscar", ClusterID: "c", ServiceName: "sc", UID: "uid-c"}
	s.leaving = []replicaState{{at: gone, member: -1, desiredRev: 8, desired: &record.Desired{Intent: record.IntentDelete, UID: "uid-c"}}}
	if d := decide(s, policy); d.name != "" || !d.again.Equal(until.Time) {
		t.Errorf("nothing wakes the decider at the change's deadline: %+v", d)
	}
	s.now = until.Time
	if d := decide(s, policy); d.name != "refuse_change" || d.fed.Change != nil || d.fed.Refused == nil || len(d.remove) != 1 {
		t.Errorf("%+v", d)
	}
}

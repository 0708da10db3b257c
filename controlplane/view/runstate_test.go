package view

import (
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
)

// A status says why a service is not stopped yet, and a service that is stopped is in OSCAR's words.
func TestWhyAServiceIsNotStoppedYet(t *testing.T) {
	base := func(change func(*ReplicaState)) ReplicaState {
		r := ReplicaState{
			Alive: true, RunStates: true,
			Desired:  &record.Desired{UID: "u", Intent: record.IntentApply, Generation: 1, RunState: record.RunStopped},
			Observed: &record.Observed{UID: "u", Phase: record.PhaseReady, ObservedGeneration: 1, RunState: record.RunStarted},
		}
		change(&r)
		return r
	}
	f := &record.Federation{Generation: 1, RunState: record.RunStopped, Phase: record.PhaseReady}
	for name, tc := range map[string]struct {
		change  func(*ReplicaState)
		phase   record.Phase
		says    string
		overall record.Phase
		state   string
	}{
		"under way":       {func(*ReplicaState) {}, record.PhaseApplying, "it is to be stopped", record.PhaseChanging, "pending"},
		"an older syncer": {func(r *ReplicaState) { r.RunStates = false }, record.PhasePending, "older version", record.PhaseDegraded, "pending"},
		"paused":          {func(r *ReplicaState) { r.Desired.Paused = true }, record.PhasePending, "when the pause ends", record.PhaseDegraded, "pending"},
		"away":            {func(r *ReplicaState) { r.Alive = false }, record.PhaseUnreachable, "it is to be stopped when it is back", record.PhaseDegraded, "unavailable"},
		"stopped":         {func(r *ReplicaState) { r.Observed.RunState = record.RunStopped }, record.PhaseReady, "", record.PhaseReady, "stopped"},
	} {
		st := base(tc.change).Status(f, record.Member{})
		members := []Replica{{Coordinator: true, Status: st}}
		if st.Phase != tc.phase || !strings.Contains(st.Message, tc.says) || shownPhase(f, members) != tc.overall || DeploymentOf(members, 0).State != tc.state {
			t.Errorf("%s: %+v, %s, %+v", name, st, shownPhase(f, members), DeploymentOf(members, 0))
		}
	}
}

// A cluster that has the OSCAR of another one was said to be paused, and nothing said what ends that.
func TestWhatWaitsForAClusterWithTheOSCAROfAnother(t *testing.T) {
	f := &record.Federation{Generation: 2, RunState: record.RunStopped, Phase: record.PhaseReady}
	for name, tc := range map[string]struct {
		desired record.Desired
		phase   record.Phase
		says    string
	}{
		"a change":   {record.Desired{Intent: record.IntentApply, Generation: 2}, record.PhasePending, "generation 2 will be applied"},
		"a stop":     {record.Desired{Intent: record.IntentApply, Generation: 1, RunState: record.RunStopped}, record.PhasePending, "it is to be stopped"},
		"a deletion": {record.Desired{Intent: record.IntentDelete, Generation: 2}, record.PhaseDeleting, "it is deleted"},
	} {
		tc.desired.UID = "u"
		r := ReplicaState{
			Alive: true, RunStates: true, Stopped: true, SameOscarAs: "b", Desired: &tc.desired, DesiredRev: 2,
			Observed: &record.Observed{UID: "u", Phase: record.PhaseReady, ObservedGeneration: 1, DesiredRevision: 1},
		}
		now := *f
		if name == "a stop" {
			now.Generation = 1
		}
		st := r.Status(&now, record.Member{})
		if st.Phase != tc.phase || st.Reason != record.ReasonSameOscar || st.Message != tc.says+" when one of the two registrations is removed" {
			t.Errorf("%s: %+v", name, st)
		}
		if why := r.WhyAway(); why != `its OSCAR is that of cluster "b", too` {
			t.Errorf("%s: %s", name, why)
		}
	}
}

// A creation that a cluster did not vote about was said to be applied when the cluster is back, and was
// refused some seconds later.
func TestAClusterThatIsAwayIsPromisedNothingBeforeItsVote(t *testing.T) {
	f := &record.Federation{Generation: 1, Phase: record.PhasePreparing}
	for intent, want := range map[record.Intent]string{
		record.IntentPrepare: "no syncer has connected yet; its vote is waited for",
		record.IntentApply:   "no syncer has connected yet; generation 1 will be applied when it is back",
	} {
		r := ReplicaState{Desired: &record.Desired{UID: "u", Intent: intent, Generation: 1}}
		if st := r.Status(f, record.Member{}); st.Phase != record.PhaseUnreachable || st.Message != want {
			t.Errorf("%s: %+v", intent, st)
		}
	}
}

// A difference that was resolved is not told as one that waits for a person, also before its syncer has acted on it.
func TestADifferenceThatWasResolvedIsNotHeld(t *testing.T) {
	for name, tc := range map[string]struct {
		desired record.Desired
		phase   record.Phase
	}{
		"open":                {record.Desired{Generation: 1}, record.PhaseHeld},
		"resolved":            {record.Desired{Generation: 2, Again: true}, record.PhaseApplying},
		"resolved and paused": {record.Desired{Generation: 2, Again: true, Paused: true}, record.PhasePending},
	} {
		tc.desired.UID, tc.desired.Intent = "u", record.IntentApply
		r := ReplicaState{Alive: true, Desired: &tc.desired, Observed: &record.Observed{
			UID: "u", Phase: record.PhaseHeld, Held: &record.Held{Kind: record.HeldMissing}, ObservedGeneration: 1,
		}}
		f := &record.Federation{Generation: tc.desired.Generation, Phase: record.PhaseReady}
		if st := r.Status(f, record.Member{}); st.Phase != tc.phase {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// A DELETE that OSCAR answered as its syncer was stopped was told as one that failed.
func TestADELETEThatWasAnsweredIsToldAsDone(t *testing.T) {
	r := ReplicaState{
		Alive: true, Desired: &record.Desired{UID: "u", Intent: record.IntentDelete, Generation: 1}, DesiredRev: 2,
		Observed: &record.Observed{UID: "u", Phase: record.PhaseDeleting, ObservedGeneration: 1, DesiredRevision: 2, Operation: record.OperationDelete, Status: 204, Message: "OSCAR has deleted it"},
	}
	if st := r.Status(&record.Federation{Generation: 1}, record.Member{}); st.Message != r.Observed.Message {
		t.Errorf("it says %q", st.Message)
	}
}

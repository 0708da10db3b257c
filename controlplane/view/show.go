package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store/record"
)

// Shown is a federation as callers see it, with fields that only some answers need.
type Shown struct {
	Federation
	Code       string
	Detail     string
	RetryAfter time.Duration
	// Strange is a word of a newer version in its records.
	Strange string
}

// Show is a federation as callers see it; rev is the revision of its record.
func (v *View) Show(f *record.Federation, rev int64) Shown {
	out := Shown{
		Federation: Federation{
			UID: f.UID, Owner: f.Owner, GroupID: f.GroupID, Topology: f.Topology, Delegation: f.Delegation,
			Deployment: f.Deployment, Drift: f.Drift, Generation: f.Generation, Revision: rev, Phase: f.Phase,
			Paused: f.Paused, RunState: f.RunState, CreatedAt: f.CreatedAt.Time, ChangedAt: f.ChangedAt.Time,
		},
		Code: f.Code, Detail: f.Detail, RetryAfter: time.Duration(f.RetryAfter) * time.Second,
	}
	sit := v.Situation(f)
	out.Members, out.Leaving = sit.members()
	out.Phase = shownPhase(f, out.Members)
	g := GraphOf(f)
	for i := range g.Nodes {
		for _, j := range g.Sees(i) {
			out.Edges = append(out.Edges, [2]int{i, j})
		}
	}
	failed := *f
	failed.Members = slices.Clone(f.Members)
	if f.Phase == record.PhaseRollingBack {
		for _, r := range sit.Replicas {
			failed.Members[r.Member].Rollback = r.Rollback()
		}
	}
	out.Failed = failedCreate(&failed)
	if out.Strange = sit.Strange(); out.Strange != "" {
		out.showStrange(out.Strange)
	}
	return out
}

// members are the members of a federation with the status of its replicas, and those that leave.
func (s *Situation) members() (members, leaving []Replica) {
	for _, m := range s.Fed.Members {
		members = append(members, Replica{
			Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName, Priority: m.Priority, URL: m.URL,
			SSLVerify: m.SSLVerify, Weight: m.Weight, UID: m.UID, Coordinator: m.Coordinator,
		})
	}
	for _, r := range s.Replicas {
		members[r.Member].Status = r.Status(&s.Fed, r.At)
	}
	for _, r := range s.Leaving {
		leaving = append(leaving, Replica{
			Type: r.At.Type, ClusterID: r.At.ClusterID, ServiceName: r.At.ServiceName, Priority: r.At.Priority, UID: r.At.UID,
			Status: r.Status(&s.Fed, r.At),
		})
	}
	return members, leaving
}

// shownPhase is the phase of a federation as callers see it: one that is ready is changing while
// its replicas apply a change, and degraded while one of them is not ready for another cause.
func shownPhase(f *record.Federation, members []Replica) record.Phase {
	unready, behind := false, false
	for _, m := range members {
		if st := m.Status; st != nil {
			unready = unready || st.Phase != record.PhaseReady
			behind = behind || st.Phase == record.PhaseApplying && (st.ObservedGeneration < f.Generation && f.Generation > 1 || st.RunState != f.RunState)
		}
	}
	switch {
	case f.Phase == record.PhaseDeleting:
		return f.Phase
	case f.Change != nil, f.Phase == record.PhaseReady && unready && behind:
		return record.PhaseChanging
	case f.Phase == record.PhaseReady && unready:
		return record.PhaseDegraded
	}
	return f.Phase
}

// Status is the status of one replica, as callers see it.
func (r ReplicaState) Status(f *record.Federation, m record.Member) *Status {
	st := &Status{Phase: record.PhasePending, LastTransitionTime: f.ChangedAt.Time}
	o := r.Observed
	if o != nil {
		st.ObservedGeneration = o.ObservedGeneration
		st.Reason, st.Message, st.LastTransitionTime = o.Reason, o.Message, o.LastTransitionTime.Time
	}
	if r.Alive && r.Desired != nil && !r.Desired.Tombstone() && o != nil && o.UID == r.Desired.UID {
		st.Inputs = o.Inputs
		if r.Desired.RunState != "" {
			st.RunState = o.RunState
		}
	}
	switch {
	case r.Abandoned:
		st.Phase, st.Reason, st.Message = record.PhaseUnreachable, record.ReasonSessionLost, "the cluster was removed; its tombstone waits for it"
		return st
	case r.Desired == nil:
		st.Phase, st.Reason, st.Message = record.PhaseDeleted, record.ReasonDeleted, ""
		if m.Cause != nil {
			st.Reason, st.Message = m.Cause.Reason, m.Cause.Message
		}
		return st
	case !r.Alive:
		r.showAway(st, f)
		return st
	case r.Desired.Tombstone():
		r.showDeletion(st)
		return st
	case r.Desired.Intent == record.IntentPrepare:
		if v := r.Vote(); v != nil {
			st.Phase = o.Phase
		}
		return st
	case !r.appliedAs(f.Generation) && (r.Stopped || r.Desired.Paused):
		why, until := r.whyPaused(f)
		st.Phase, st.Reason = record.PhasePending, why
		st.Message = "generation " + strconv.FormatInt(f.Generation, 10) + " will be applied " + until
		return st
	case !r.appliedAs(f.Generation):
		st.Phase, st.Reason, st.Message = record.PhaseApplying, r.Trouble.Reason, cmp.Or(r.Trouble.Message, r.Waits())
		return st
	}
	st.Phase, st.Message = o.Phase, r.withWait(reportedMessage(o))
	if st.Reason == record.ReasonPaused {
		st.Reason, _ = r.whyPaused(f)
	}
	if r.RunStatePending() {
		r.showRunState(st, f)
	}
	if word := record.Strange(o); word != "" {
		st.Reason, st.Message = record.ReasonNewerVersion, fmt.Sprintf("its syncer is of a newer version than this control plane, and reports the %s", word)
	}
	return st
}

// whyPaused says why a syncer makes and changes nothing, and until when.
func (r ReplicaState) whyPaused(f *record.Federation) (why record.Reason, until string) {
	switch {
	case r.SameOscarAs != "":
		return record.ReasonSameOscar, "when one of the two registrations is removed"
	case f.SecretsLost && !f.Paused && !r.Stopped:
		return record.ReasonSecretsLost, "when a change gives the secrets that a restore has lost, or sends environment.secrets without them"
	}
	return record.ReasonPaused, "when the pause ends"
}

// RunStatePending says that the replica is in place, and not yet stopped or started as it was ordered.
func (r ReplicaState) RunStatePending() bool {
	return r.Desired != nil && r.Desired.Intent == record.IntentApply && r.Desired.RunState != "" &&
		r.Observed != nil && r.Observed.Phase == record.PhaseReady && r.Observed.RunState != r.Desired.RunState
}

// showRunState says in a status that the service is still to be stopped or started.
func (r ReplicaState) showRunState(st *Status, f *record.Federation) {
	st.Phase, st.Reason, st.Message = record.PhaseApplying, "", "it is to be "+string(r.Desired.RunState)
	switch {
	case r.Stopped || r.Desired.Paused:
		why, until := r.whyPaused(f)
		st.Phase, st.Reason = record.PhasePending, why
		st.Message += " " + until
	case !r.RunStates:
		st.Phase = record.PhasePending
		st.Message += "; its syncer is of an older version, which cannot: a newer one does it"
	}
}

// showAway says in a status that no syncer is connected, and what waits for one.
func (r ReplicaState) showAway(st *Status, f *record.Federation) {
	st.Phase, st.Reason = record.PhaseUnreachable, record.ReasonSessionLost
	st.Message = "no syncer has connected yet"
	if r.LastSeen != nil {
		st.LastTransitionTime = *r.LastSeen
		st.Message = "no syncer since " + r.LastSeen.UTC().Format(time.RFC3339)
	}
	switch {
	case r.Desired.Tombstone():
		st.Message += "; its tombstone waits for it"
	case r.Desired.Intent == record.IntentPrepare:
		st.Message += "; its vote is waited for"
	case st.ObservedGeneration < f.Generation:
		st.Message += "; generation " + strconv.FormatInt(f.Generation, 10) + " will be applied when it is back"
	case r.RunStatePending():
		st.Message += "; it is to be " + string(r.Desired.RunState) + " when it is back"
	}
}

// showDeletion says in a status how far a tombstone has come.
func (r ReplicaState) showDeletion(st *Status) {
	o := r.Observed
	switch {
	case o != nil && o.DesiredRevision == r.DesiredRev:
		st.Phase, st.Message = o.Phase, r.withWait(reportedMessage(o))
	case r.SameOscarAs != "":
		st.Phase, st.Reason, st.Message = record.PhaseDeleting, record.ReasonSameOscar, "it is deleted when one of the two registrations is removed"
	case r.Stopped:
		st.Phase, st.Reason, st.Message = record.PhaseDeleting, record.ReasonPaused, "it is deleted when the pause of its cluster ends"
	case r.Trouble.Reason != "":
		st.Phase, st.Reason, st.Message = record.PhaseDeleting, r.Trouble.Reason, r.Trouble.Message+"; its tombstone waits for it"
	default:
		st.Phase, st.Reason, st.Message = record.PhaseDeleting, "", r.Waits()
	}
}

// reportedMessage is what a report says of a call to OSCAR that failed, or its message.
func reportedMessage(o *record.Observed) string {
	if o.Operation == "" || o.Phase == record.PhaseDeleted || o.Erased() {
		return o.Message
	}
	message := o.Message
	if o.Status != 0 {
		said := fmt.Sprintf("%s answered %d", o.Operation, o.Status)
		if message != said {
			said += ": " + message
		}
		message = said
	}
	if o.Phase != record.PhaseFailed {
		message += "; it is tried again"
	}
	return message
}

// appliedAs says whether the syncer has reported an outcome at a generation. A difference that was resolved since is
// none.
func (r ReplicaState) appliedAs(generation int64) bool {
	o := r.Observed
	if o == nil || o.Phase == record.PhasePending || o.Phase == record.PhasePrepared || o.Phase == record.PhaseRefused {
		return false
	}
	resolved := o.Held != nil && o.Phase == record.PhaseHeld && r.Held() == nil
	return o.ObservedGeneration >= generation || !resolved && o.Phase != record.PhaseReady && o.Phase != record.PhaseApplying
}

// GraphOf rebuilds the graph of a stored federation.
func GraphOf(f *record.Federation) *topology.Graph {
	g := &topology.Graph{
		GroupID: f.GroupID, Topology: f.Topology, Delegation: f.Delegation, Deployment: f.Deployment,
		Drift: f.Drift, ReschedulerThreshold: f.ReschedulerThreshold,
	}
	for _, m := range f.Members {
		g.Nodes = append(g.Nodes, topology.Node{Coordinator: m.Coordinator, Member: oscar.Member{
			Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName, Priority: m.Priority, URL: m.URL,
			SSLVerify: m.SSLVerify, Weight: m.Weight,
		}})
	}
	return g
}

// Strange names a word of a newer version in a federation or in the desired records of its
// replicas; it is empty when all words are known. Reports of syncers are not checked: an
// unknown word there counts like silence.
func (s *Situation) Strange() string {
	if word := record.Strange(&s.Fed); word != "" {
		return word
	}
	for _, r := range slices.Concat(s.Replicas, s.Adding, s.Leaving) {
		if word := record.Strange(r.Desired); word != "" {
			return word + " on " + r.At.ClusterID
		}
	}
	return ""
}

// Understood refuses to change a federation that a newer version has written.
func (s *Situation) Understood() error {
	if word := s.Strange(); word != "" {
		return fault.NewerVersion(fmt.Sprintf("federation %q", s.Fed.GroupID), word)
	}
	return nil
}

// showStrange says in the status of a federation why nothing happens to it.
func (p *Shown) showStrange(word string) {
	p.Phase = record.PhaseDegraded
	for _, members := range [][]Replica{p.Members, p.Leaving} {
		for _, m := range members {
			if m.Status != nil {
				m.Status.Reason, m.Status.Message = record.ReasonNewerVersion, fault.StrangeMessage(fmt.Sprintf("federation %q", p.GroupID), word)
			}
		}
	}
}

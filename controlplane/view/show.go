package view

import (
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
	visibility string
	allowed    []string
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
			Paused: f.Paused, CreatedAt: f.CreatedAt.Time, ChangedAt: f.ChangedAt.Time,
		},
		visibility: f.Visibility, allowed: f.AllowedUsers,
		Code: f.Code, Detail: f.Detail, RetryAfter: time.Duration(f.RetryAfter) * time.Second,
	}
	sit := v.Situation(f)
	of := map[int]ReplicaState{}
	for _, r := range sit.Replicas {
		of[r.Member] = r
	}
	unready, behind := false, false
	for i, m := range f.Members {
		rep := Replica{
			Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName, Priority: m.Priority, URL: m.URL,
			SSLVerify: m.SSLVerify, Weight: m.Weight, UID: m.UID, Coordinator: m.Coordinator,
		}
		if r, ok := of[i]; ok {
			rep.Status = r.Status(f, m)
			unready = unready || rep.Status.Phase != record.PhaseReady
			behind = behind || rep.Status.ObservedGeneration < f.Generation && rep.Status.Phase == record.PhaseApplying
		}
		out.Members = append(out.Members, rep)
	}
	for _, r := range sit.Leaving {
		out.Leaving = append(out.Leaving, Replica{
			Type: r.At.Type, ClusterID: r.At.ClusterID, ServiceName: r.At.ServiceName, Priority: r.At.Priority, UID: r.At.UID,
			Status: r.Status(f, r.At),
		})
	}
	if f.Phase == record.PhaseReady && unready {
		out.Phase = record.PhaseDegraded
		if behind && f.Generation > 1 {
			out.Phase = record.PhaseChanging
		}
	}
	if f.Change != nil && out.Phase != record.PhaseDeleting {
		out.Phase = record.PhaseChanging
	}
	g := GraphOf(f)
	for i := range g.Nodes {
		for _, j := range g.Sees(i) {
			out.Edges = append(out.Edges, [2]int{i, j})
		}
	}
	failed := *f
	failed.Members = slices.Clone(f.Members)
	if f.Phase == record.PhaseRollingBack {
		for i, r := range of {
			failed.Members[i].Rollback = r.Rollback()
		}
	}
	out.Failed = failedCreate(&failed)
	if out.Strange = sit.Strange(); out.Strange != "" {
		out.showStrange(out.Strange)
	}
	return out
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
		st.Phase, st.Reason = record.PhaseUnreachable, record.ReasonSessionLost
		st.Message = "no syncer has connected yet"
		if r.LastSeen != nil {
			st.LastTransitionTime = *r.LastSeen
			st.Message = "no syncer since " + r.LastSeen.UTC().Format(time.RFC3339)
		}
		switch {
		case r.Desired.Tombstone():
			st.Message += "; its tombstone waits for it"
		case st.ObservedGeneration < f.Generation:
			st.Message += "; generation " + strconv.FormatInt(f.Generation, 10) + " will be applied when it is back"
		}
		return st
	case r.Desired.Tombstone():
		switch {
		case o != nil && o.DesiredRevision == r.DesiredRev:
			st.Phase, st.Message = o.Phase, reportedMessage(o)
		case r.Stopped:
			st.Phase, st.Reason, st.Message = record.PhaseDeleting, record.ReasonPaused, "it is deleted when the pause of its cluster ends"
		case r.Trouble.Reason != "":
			st.Phase, st.Reason, st.Message = record.PhaseDeleting, r.Trouble.Reason, r.Trouble.Message+"; its tombstone waits for it"
		default:
			st.Phase, st.Reason, st.Message = record.PhaseDeleting, "", ""
		}
		return st
	case r.Desired.Intent == record.IntentPrepare:
		if v := r.Vote(); v != nil {
			st.Phase = o.Phase
		}
		return st
	case !r.appliedAs(f.Generation) && (r.Stopped || r.Desired.Paused):
		st.Phase, st.Reason = record.PhasePending, record.ReasonPaused
		st.Message = "generation " + strconv.FormatInt(f.Generation, 10) + " will be applied when the pause ends"
		return st
	case !r.appliedAs(f.Generation):
		st.Phase, st.Reason, st.Message = record.PhaseApplying, r.Trouble.Reason, r.Trouble.Message
		return st
	}
	st.Phase, st.Message = o.Phase, reportedMessage(o)
	if word := record.Strange(o); word != "" {
		st.Reason, st.Message = record.ReasonNewerVersion, fmt.Sprintf("its syncer is of a newer version than this control plane, and reports the %s", word)
	}
	return st
}

// reportedMessage is what a report says of a call to OSCAR that failed, or its message.
func reportedMessage(o *record.Observed) string {
	if o.Operation == "" || o.Phase == record.PhaseDeleted {
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

// appliedAs says whether the syncer has reported an outcome at a generation.
func (r ReplicaState) appliedAs(generation int64) bool {
	o := r.Observed
	if o == nil || o.Phase == record.PhasePending || o.Phase == record.PhasePrepared || o.Phase == record.PhaseRefused {
		return false
	}
	return o.ObservedGeneration >= generation || o.Phase != record.PhaseReady && o.Phase != record.PhaseApplying
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

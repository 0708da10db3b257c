package controlplane

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store/record"
)

// presented is a federation as callers see it, and what only answers need.
type presented struct {
	Federation
	visibility string
	allowed    []string
	code       string
	detail     string
	retryAfter time.Duration
	// strange is a word of a newer version in its records.
	strange string
}

// federation presents one federation as the state knows it.
func (c *ControlPlane) federation(uid string) (presented, bool) {
	var out presented
	found := false
	c.state.read(func(v *View) {
		if f, ok := v.federations[uid]; ok {
			found, out = true, v.present(f.rec, f.rev)
		}
	})
	return out, found
}

func (v *View) present(f *record.Federation, rev int64) presented {
	out := presented{
		Federation: Federation{
			UID: f.UID, Owner: f.Owner, GroupID: f.GroupID, Topology: f.Topology, Delegation: f.Delegation,
			Deployment: f.Deployment, Drift: f.Drift, Generation: f.Generation, Revision: rev, Phase: f.Phase,
			Paused: f.Paused, CreatedAt: f.CreatedAt.Time, ChangedAt: f.ChangedAt.Time,
		},
		visibility: f.Visibility, allowed: f.AllowedUsers,
		code: f.Code, detail: f.Detail, retryAfter: time.Duration(f.RetryAfter) * time.Second,
	}
	sit := v.situation(f)
	of := map[int]replicaState{}
	for _, r := range sit.replicas {
		of[r.member] = r
	}
	unready, behind := false, false
	for i, m := range f.Members {
		rep := Replica{
			Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName, Priority: m.Priority, URL: m.URL,
			SSLVerify: m.SSLVerify, Weight: m.Weight, UID: m.UID, Coordinator: m.Coordinator,
		}
		if r, ok := of[i]; ok {
			rep.Status = r.status(f, m)
			unready = unready || rep.Status.Phase != record.PhaseReady
			behind = behind || rep.Status.ObservedGeneration < f.Generation && rep.Status.Phase == record.PhaseApplying
		}
		out.Members = append(out.Members, rep)
	}
	for _, r := range sit.leaving {
		out.Leaving = append(out.Leaving, Replica{
			Type: r.at.Type, ClusterID: r.at.ClusterID, ServiceName: r.at.ServiceName, Priority: r.at.Priority, UID: r.at.UID,
			Status: r.status(f, r.at),
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
	g := graphOf(f)
	for i := range g.Nodes {
		for _, j := range g.Sees(i) {
			out.Edges = append(out.Edges, [2]int{i, j})
		}
	}
	failed := *f
	failed.Members = slices.Clone(f.Members)
	if f.Phase == record.PhaseRollingBack {
		for i, r := range of {
			failed.Members[i].Rollback = r.rollback()
		}
	}
	out.Failed = failedCreate(&failed)
	if out.strange = sit.strange(); out.strange != "" {
		out.showStrange(out.strange)
	}
	return out
}

// status is what a caller is told about one replica.
func (r replicaState) status(f *record.Federation, m record.Member) *Status {
	st := &Status{Phase: record.PhasePending, LastTransitionTime: f.ChangedAt.Time}
	o := r.observed
	if o != nil {
		st.ObservedGeneration = o.ObservedGeneration
		st.Reason, st.Message, st.LastTransitionTime = o.Reason, o.Message, o.LastTransitionTime.Time
	}
	if r.alive && r.desired != nil && !r.desired.Tombstone() && o != nil && o.UID == r.desired.UID {
		st.Inputs = o.Inputs
	}
	switch {
	case r.abandoned:
		st.Phase, st.Reason, st.Message = record.PhaseUnreachable, record.ReasonSessionLost, "the cluster was removed; its tombstone waits for it"
		return st
	case r.desired == nil:
		st.Phase, st.Reason, st.Message = record.PhaseDeleted, record.ReasonDeleted, ""
		if m.Cause != nil {
			st.Reason, st.Message = m.Cause.Reason, m.Cause.Message
		}
		return st
	case !r.alive:
		st.Phase, st.Reason = record.PhaseUnreachable, record.ReasonSessionLost
		st.Message = "no syncer has connected yet"
		if r.lastSeen != nil {
			st.LastTransitionTime = *r.lastSeen
			st.Message = "no syncer since " + r.lastSeen.UTC().Format(time.RFC3339)
		}
		switch {
		case r.desired.Tombstone():
			st.Message += "; its tombstone waits for it"
		case st.ObservedGeneration < f.Generation:
			st.Message += "; generation " + strconv.FormatInt(f.Generation, 10) + " will be applied when it is back"
		}
		return st
	case r.desired.Tombstone():
		switch {
		case o != nil && o.DesiredRevision == r.desiredRev:
			st.Phase, st.Message = o.Phase, told(o)
		case r.stopped:
			st.Phase, st.Reason, st.Message = record.PhaseDeleting, record.ReasonPaused, "it is deleted when the pause of its cluster ends"
		case r.trouble.reason != "":
			st.Phase, st.Reason, st.Message = record.PhaseDeleting, r.trouble.reason, r.trouble.message+"; its tombstone waits for it"
		default:
			st.Phase, st.Reason, st.Message = record.PhaseDeleting, "", ""
		}
		return st
	case r.desired.Intent == record.IntentPrepare:
		if v := r.vote(); v != nil {
			st.Phase = o.Phase
		}
		return st
	case !r.appliedAs(f.Generation) && (r.stopped || r.desired.Paused):
		st.Phase, st.Reason = record.PhasePending, record.ReasonPaused
		st.Message = "generation " + strconv.FormatInt(f.Generation, 10) + " will be applied when the pause ends"
		return st
	case !r.appliedAs(f.Generation):
		st.Phase, st.Reason, st.Message = record.PhaseApplying, r.trouble.reason, r.trouble.message
		return st
	}
	st.Phase, st.Message = o.Phase, told(o)
	if word := record.Strange(o); word != "" {
		st.Reason, st.Message = record.ReasonNewerVersion, fmt.Sprintf("its syncer is of a newer version than this control plane, and reports the %s", word)
	}
	return st
}

// told is what a report says of a call to OSCAR that failed, or its message.
func told(o *record.Observed) string {
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

// appliedAs says whether the syncer has told of an outcome at a generation.
func (r replicaState) appliedAs(generation int64) bool {
	o := r.observed
	if o == nil || o.Phase == record.PhasePending || o.Phase == record.PhasePrepared || o.Phase == record.PhaseRefused {
		return false
	}
	return o.ObservedGeneration >= generation || o.Phase != record.PhaseReady && o.Phase != record.PhaseApplying
}

// graphOf rebuilds the graph of a stored federation.
func graphOf(f *record.Federation) *topology.Graph {
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

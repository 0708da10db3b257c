package view

import (
	"strings"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/hint"
	"github.com/oscarfed/oscarfed/store/record"
)

// A federation is not kept in the types of api/v1: decisions need the typed phases, the uids, all
// members behind a replica that sees some of them, and edges as indexes. The functions here are
// the one way from it to the wire.

// Wire is the whole federation at a moment, which a refresh token's age is counted to.
func (f *Federation) Wire(now time.Time) v1.Federation {
	out := v1.Federation{
		GroupID:      f.GroupID,
		UID:          f.UID,
		Topology:     f.Topology,
		Delegation:   f.Delegation,
		Deployment:   f.Deployment,
		Generation:   f.Generation,
		Revision:     f.Revision,
		Phase:        string(f.Phase),
		Coordinator:  f.coordinator(),
		Replicas:     make([]v1.Replica, 0, len(f.Members)),
		Edges:        make([][2]string, 0, len(f.Edges)),
		Owner:        f.Owner,
		CreatedAt:    v1.Time{Time: f.CreatedAt},
		ChangedAt:    v1.Time{Time: f.ChangedAt},
		Drift:        f.Drift,
		Paused:       f.Paused,
		RunState:     string(f.RunState),
		Failed:       f.Failed.Wire(),
		RefreshToken: f.RefreshToken.Wire(now),
	}
	for _, m := range f.Members {
		r := m.wire(out.Coordinator.ClusterID)
		r.Inputs, r.Outputs = m.Inputs, m.Outputs
		for _, s := range m.Storage {
			r.Storage = append(r.Storage, v1.Storage{StorageProvider: s.Provider, ClusterID: s.ClusterID, Endpoint: s.Endpoint})
		}
		out.Replicas = append(out.Replicas, r)
	}
	for _, m := range f.Leaving {
		out.Leaving = append(out.Leaving, m.wire(out.Coordinator.ClusterID))
	}
	for _, e := range f.Edges {
		from, ok1 := f.Member(e[0])
		to, ok2 := f.Member(e[1])
		if ok1 && ok2 {
			out.Edges = append(out.Edges, [2]string{from.Name(), to.Name()})
		}
	}
	out.Hint = hintOf(&out)
	return out
}

// Wire is the federation as its replica sees it, at a moment.
func (r *Replicas) Wire(now time.Time) v1.Replicas {
	out := v1.Replicas{
		GroupID:      r.GroupID,
		UID:          r.UID,
		Topology:     r.Topology,
		Delegation:   r.Delegation,
		Deployment:   r.Deployment,
		Generation:   r.Generation,
		Revision:     r.Revision,
		Phase:        string(r.Phase),
		Coordinator:  r.coordinator(),
		Replicas:     make([]v1.Replica, 0, len(r.Sees)),
		Failed:       r.Failed.Wire(),
		RefreshToken: r.RefreshToken.Wire(now),
	}
	if m, ok := r.Member(r.Self); ok {
		out.Self = m.wire(out.Coordinator.ClusterID)
	}
	for _, i := range r.Sees {
		if m, ok := r.Member(i); ok {
			out.Replicas = append(out.Replicas, m.wire(out.Coordinator.ClusterID))
		}
	}
	return out
}

// Member is the member with an index; false when there is none.
func (f *Federation) Member(i int) (Replica, bool) {
	if i < 0 || i >= len(f.Members) {
		return Replica{}, false
	}
	return f.Members[i], true
}

// Name is cluster/service, or the URL of an endpoint.
func (r Replica) Name() string {
	if r.URL != "" {
		return r.URL
	}
	return r.ClusterID + "/" + r.ServiceName
}

func (f *Federation) coordinator() v1.Address {
	for _, m := range f.Members {
		if m.Coordinator {
			return v1.Address{ClusterID: m.ClusterID, ServiceName: m.ServiceName}
		}
	}
	return v1.Address{}
}

// wire leaves the inputs and outputs out; origin is the coordinator's cluster.
func (r Replica) wire(origin string) v1.Replica {
	out := v1.Replica{
		Type:        r.Type,
		ClusterID:   r.ClusterID,
		ServiceName: r.ServiceName,
		Priority:    r.Priority,
		URL:         r.URL,
		SSLVerify:   r.SSLVerify,
		Weight:      r.Weight,
	}
	if st := r.Status; st != nil {
		out.Status = &v1.Status{
			Phase:              string(st.Phase),
			ObservedGeneration: st.ObservedGeneration,
			Reason:             string(st.Reason),
			Message:            st.Message,
			LastTransitionTime: v1.Time{Time: st.LastTransitionTime},
			RunState:           string(st.RunState),
			Hint:               st.hint(r.ClusterID, origin),
		}
		if in := st.Inputs; in != nil {
			out.Status.Inputs = &v1.Inputs{Readable: in.Readable, Reason: string(in.Reason), Message: in.Message, At: v1.Time{Time: in.At.Time}}
		}
	}
	return out
}

// hint is what to do about a replica on a cluster; origin is the coordinator's cluster.
func (st *Status) hint(cluster, origin string) string {
	var do []string
	if in := st.Inputs; in != nil && !in.Readable {
		do = append(do, hint.ForInputs(in.Reason, cluster, origin))
	}
	if st.Phase != record.PhaseReady {
		if about := hint.ForReason(st.Reason, cluster); about != "" {
			do = append(do, about)
		}
	}
	return strings.Join(do, "; ")
}

// hintOf is what to do about the first replica that is in trouble, with its name.
func hintOf(f *v1.Federation) string {
	for _, r := range f.Replicas {
		if r.Status != nil && r.Status.Hint != "" {
			return r.ClusterID + "/" + r.ServiceName + ": " + r.Status.Hint
		}
	}
	if f.Failed == nil {
		return ""
	}
	for _, r := range f.Failed.Replicas {
		if r.Cause == nil {
			continue
		}
		if do := hint.ForReason(record.Reason(r.Cause.Reason), r.ClusterID); do != "" {
			return r.ClusterID + "/" + r.ServiceName + ": " + do
		}
	}
	return ""
}

// FailedReplica is what became of one member of a failed creation or change.
func FailedReplica(m record.Member) v1.FailedReplica {
	out := v1.FailedReplica{Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName}
	if c := m.Cause; c != nil {
		out.Cause = &v1.Cause{Reason: string(c.Reason), Operation: c.Operation, Status: c.Status, Message: c.Message}
	}
	if r := m.Rollback; r != nil {
		out.Rollback = v1.Rollback{State: string(r.State), Message: r.Message}
	}
	return out
}

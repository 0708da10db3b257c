package server

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

func clusterPath(id string) string { return "/system/clusters/" + url.PathEscape(id) }

// replicasOf is a federation as one of its replicas sees it.
func replicasOf(v *view.Replicas) v1.Replicas {
	out := v1.Replicas{
		GroupID:     v.GroupID,
		UID:         v.UID,
		Topology:    v.Topology,
		Delegation:  v.Delegation,
		Deployment:  v.Deployment,
		Generation:  v.Generation,
		Revision:    v.Revision,
		Phase:       string(v.Phase),
		Coordinator: coordinatorOf(v.Members),
		Replicas:    make([]v1.Replica, 0, len(v.Sees)),
		Failed:      failedOf(v.Failed),

		RefreshToken: refreshTokenOf(v.RefreshToken, time.Now()),
	}
	if member, ok := at(v.Members, v.Self); ok {
		out.Self = replicaOf(member)
	}
	for _, i := range v.Sees {
		if member, ok := at(v.Members, i); ok {
			out.Replicas = append(out.Replicas, replicaOf(member))
		}
	}
	return out
}

// coordinatorView is a federation as its coordinator sees it.
func coordinatorView(f view.Federation) *view.Replicas {
	v := &view.Replicas{Federation: f}
	for i, m := range f.Members {
		if m.Coordinator {
			v.Self = i
		}
	}
	for _, e := range f.Edges {
		if e[0] == v.Self {
			v.Sees = append(v.Sees, e[1])
		}
	}
	return v
}

// federationOf is a whole federation.
func federationOf(f *view.Federation) v1.Federation {
	out := v1.Federation{
		GroupID:     f.GroupID,
		UID:         f.UID,
		Topology:    f.Topology,
		Delegation:  f.Delegation,
		Deployment:  f.Deployment,
		Generation:  f.Generation,
		Revision:    f.Revision,
		Phase:       string(f.Phase),
		Coordinator: coordinatorOf(f.Members),
		Replicas:    make([]v1.Replica, 0, len(f.Members)),
		Edges:       make([][2]string, 0, len(f.Edges)),
		Owner:       f.Owner,
		CreatedAt:   v1.Time{Time: f.CreatedAt},
		ChangedAt:   v1.Time{Time: f.ChangedAt},
		Drift:       f.Drift,
		Paused:      f.Paused,
		Failed:      failedOf(f.Failed),

		RefreshToken: refreshTokenOf(f.RefreshToken, time.Now()),
	}
	for _, m := range f.Members {
		r := replicaOf(m)
		r.Inputs, r.Outputs = m.Inputs, m.Outputs
		out.Replicas = append(out.Replicas, r)
	}
	for _, m := range f.Leaving {
		out.Leaving = append(out.Leaving, replicaOf(m))
	}
	for _, e := range f.Edges {
		from, ok1 := at(f.Members, e[0])
		to, ok2 := at(f.Members, e[1])
		if ok1 && ok2 {
			out.Edges = append(out.Edges, [2]string{nameOf(from), nameOf(to)})
		}
	}
	return out
}

func nameOf(m view.Replica) string { return m.ClusterID + "/" + m.ServiceName }

func coordinatorOf(members []view.Replica) v1.Address {
	for _, m := range members {
		if m.Coordinator {
			return v1.Address{ClusterID: m.ClusterID, ServiceName: m.ServiceName}
		}
	}
	return v1.Address{}
}

func replicaOf(m view.Replica) v1.Replica {
	out := v1.Replica{
		Type:        m.Type,
		ClusterID:   m.ClusterID,
		ServiceName: m.ServiceName,
		Priority:    m.Priority,
		URL:         m.URL,
		SSLVerify:   m.SSLVerify,
		Weight:      m.Weight,
	}
	if st := m.Status; st != nil {
		out.Status = &v1.Status{
			Phase:              string(st.Phase),
			ObservedGeneration: st.ObservedGeneration,
			Reason:             string(st.Reason),
			Message:            st.Message,
			LastTransitionTime: v1.Time{Time: st.LastTransitionTime},
		}
		if in := st.Inputs; in != nil {
			out.Status.Inputs = &v1.Inputs{Readable: in.Readable, Reason: string(in.Reason), Message: in.Message, At: v1.Time{Time: in.At.Time}}
		}
	}
	return out
}

func failedOf(f *fault.FailedCreate) *v1.Failed {
	if f == nil {
		return nil
	}
	return &v1.Failed{Rollback: string(f.Rollback), Replicas: respond.FailedReplicas(f.Replicas)}
}

func clusterOf(c *clusters.Cluster) v1.Cluster {
	out := v1.Cluster{
		V:             1,
		ClusterID:     c.ClusterID,
		UID:           c.UID,
		Endpoint:      c.Endpoint,
		SSLVerify:     c.SSLVerify,
		Labels:        c.Labels,
		State:         string(c.State),
		AllowedGroups: c.AllowedGroups,
		RegisteredAt:  v1.Time{Time: c.RegisteredAt},
		Alive:         c.Alive,
		Stream:        c.Stream,
		OscarVersion:  c.OscarVersion,
		QueueS:        c.QueueS,
		Reason:        string(c.Reason),
		Message:       c.Message,
	}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if out.AllowedGroups == nil {
		out.AllowedGroups = []string{}
	}
	if c.LastSeen != nil {
		out.LastSeen = &v1.Time{Time: *c.LastSeen}
	}
	if j := c.Joined; j != nil {
		out.Joined = &v1.ClusterJoined{
			Key: j.Key, KubeSystemUID: j.KubeSystemUID, At: v1.Time{Time: j.At}, ValidUntil: v1.Time{Time: j.ValidUntil},
		}
	}
	if r := c.Revoked; r != nil {
		out.Revoked = &v1.ClusterRevocation{Message: r.Message, At: v1.Time{Time: r.At.Time}}
	}
	if r := c.Removal; r != nil {
		out.Removal = &v1.ClusterRemoval{
			Orphan: r.Orphan, Force: r.Force, StartedAt: v1.Time{Time: r.StartedAt},
			Federations: r.Federations, Tombstones: r.Tombstones, Waits: r.Waits, Blocked: r.Blocked,
		}
	}
	for _, o := range c.Orphans {
		out.Orphans = append(out.Orphans, v1.Orphan{
			ServiceName: o.ServiceName, UID: o.UID, Generation: o.Generation, Reason: string(o.Reason),
		})
	}
	for _, u := range c.Unlisted {
		out.Unlisted = append(out.Unlisted, v1.Unlisted{ServiceName: u.ServiceName, Reason: string(u.Reason), Message: u.Message})
	}
	return out
}

func at(members []view.Replica, i int) (view.Replica, bool) {
	if i < 0 || i >= len(members) {
		return view.Replica{}, false
	}
	return members[i], true
}

// jobOf is a job as a caller sees it: the subjects that sent and cancelled it are shown to those
// two and to the owner.
func jobOf(j *jobs.Job, caller identity.Caller) v1.Job {
	out := v1.Job{
		ID: j.ID, Federation: j.Federation, GroupID: j.GroupID, Owner: j.Owner, ClusterID: j.ClusterID, ServiceName: j.Service,
		Offered: j.Offered, Size: j.Size, State: string(j.State), Reason: string(j.Reason), Message: j.Message, Pod: podOf(j.Pod), Attempt: j.Attempt,
		Attempts: make([]v1.JobAttempt, len(j.Attempts)), Unreachable: j.Unreachable, Held: j.Held, Cancelled: j.Cancel != "",
		Revision: j.Revision, RequestID: j.RequestID, AcceptedAt: v1.Time{Time: j.AcceptedAt}, ChangedAt: v1.Time{Time: j.ChangedAt},
		NotBefore: moment(j.NotBefore), SubmittedAt: moment(j.SubmittedAt), StartedAt: moment(j.StartedAt), EndedAt: moment(j.EndedAt),
	}
	if caller.MayChange(j.Owner) || caller.Subject != "" && caller.Subject == j.By {
		out.By, out.CancelledBy = j.By, j.Cancel
	}
	if p := j.Place; p != nil {
		out.Place = &v1.JobPlace{ClusterID: p.ClusterID, ServiceName: p.ServiceName, URL: p.URL, JobName: p.Name}
	}
	for i, a := range j.Attempts {
		out.Attempts[i] = v1.JobAttempt{
			Attempt: a.Attempt, Place: a.Place, State: string(a.State), Reason: string(a.Reason),
			Status: a.Status, Message: a.Message, Pod: podOf(a.Pod), EndedAt: v1.Time{Time: a.EndedAt.Time},
		}
	}
	return out
}

// podOf is nil for nil.
func podOf(p *jobs.Pod) *v1.JobPod {
	if p == nil {
		return nil
	}
	return &v1.JobPod{Reason: p.Reason, Message: p.Message, ExitCode: p.ExitCode}
}

// moment is nil for nil.
func moment(t *time.Time) *v1.Time {
	if t == nil {
		return nil
	}
	return &v1.Time{Time: *t}
}

// decisionOf is one choice, with what it was made from.
func decisionOf(d *jobs.Explanation) (v1.JobDecision, error) {
	snapshot, err := json.Marshal(d.Snapshot)
	if err != nil {
		return v1.JobDecision{}, err
	}
	out := v1.JobDecision{
		Attempt: d.Attempt, At: v1.Time{Time: d.At}, Now: d.Now, Policy: d.Decision.Policy, Chosen: d.Decision.Chosen,
		Order: append([]string{}, d.Decision.Order...), Members: make([]v1.JobVerdict, len(d.Decision.Verdicts)), Snapshot: snapshot,
	}
	for i, v := range d.Decision.Verdicts {
		out.Members[i] = v1.JobVerdict{Place: v.Place, Why: string(v.Why), Message: v.Message, Score: v.Score}
	}
	return out, nil
}

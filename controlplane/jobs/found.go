package jobs

import (
	"cmp"
	"maps"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// foundStep is the step for an attempt that was found of a job; nil when none was. A found attempt
// counts only in a new epoch, from a cluster that has a replica of the name.
func foundStep(v *view.View, id string, now time.Time) *step {
	f, ok := foundOf(v, id)
	if !ok {
		return nil
	}
	j := v.Jobs.ByID.Get(id)
	sit := situation{job: record.Job{Job: id}, epoch: v.Epoch(), now: now}
	var report int64
	if j.Rec != nil {
		sit, report = situationOfJob(v, j.Rec, now)
	}
	d := decideFound(sit, f)
	key := record.JobReportKey(f.cluster, id, f.attempt)
	out := &step{name: "found", rev: j.Rev, next: d.next, watch: map[string]int64{key: f.rev}}
	if j.Rec != nil {
		out.was = *j.Rec
	}
	if d.drop {
		old := stepOf(v, j, report, decision{name: "found", next: d.next, drop: true})
		out.remove = old.remove
		maps.Copy(out.watch, old.watch)
	}
	if !d.adopt {
		out.remove = append(out.remove, key)
		if d.next.State.Ended() && d.next.State != record.JobParked {
			out.remove = append(out.remove, record.EventKey(id))
		}
		return out
	}
	assignment := assignmentOf(&d.next)
	assignment.Cancel = d.next.Cancel != ""
	out.put = append(out.put, gate.Staged{Key: record.AssignmentKey(f.cluster, id, f.attempt), Rec: assignment})
	return out
}

// foundOf returns the highest attempt that was found of a job.
func foundOf(v *view.View, id string) (out foundAttempt, ok bool) {
	if v.Epoch() == "" {
		return out, false
	}
	for at := range v.Jobs.Found.Of(id) {
		n := v.Nodes.Get(at.Cluster)
		r := n.Reports.Get(view.AttemptID{Job: id, Attempt: at.Attempt})
		if r.Rec == nil || r.Rec.Epoch != v.Epoch() || !r.Rec.State.Posted() {
			continue
		}
		if _, asked := n.Assignments.Lookup(view.AttemptID{Job: id, Attempt: at.Attempt}); asked {
			continue // it was adopted
		}
		if ok && cmp.Or(cmp.Compare(out.attempt, at.Attempt), cmp.Compare(at.Cluster, out.cluster)) >= 0 {
			continue
		}
		d := n.Desired.Get(r.Rec.Service).Rec
		next := foundAttempt{cluster: at.Cluster, attempt: at.Attempt, report: *r.Rec, rev: r.Rev, clusterUID: v.ClusterUID(at.Cluster)}
		if d != nil {
			next.fed = v.Federations.Get(d.Federation).Rec
			next.member = record.Member{UID: d.UID}
		}
		if j := v.Jobs.ByID.Get(id).Rec; j != nil && (d == nil || d.Federation != j.Federation) {
			continue // the cluster has no replica of the job's federation
		}
		out, ok = next, true
	}
	return out, ok
}

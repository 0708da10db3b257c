package jobs

import (
	"cmp"
	"maps"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// foundStep is the step for an attempt that was found of a job, and whether there is one. The step is nil for one that waits
// until there may be a record of its job: nothing else is decided about the job before. A found attempt counts only in a new
// epoch, from a cluster that has a replica of the name.
func foundStep(v *view.View, id string, cfg stepConfig) (out *step, found bool) {
	f, ok, full := foundOf(v, id, cfg.ofFound)
	if full != "" {
		cfg.full(full)
	}
	if !ok {
		return nil, full != ""
	}
	now := cfg.now
	j := v.Jobs.ByID.Get(id)
	sit := situation{job: record.Job{Job: id}, epoch: v.Epoch(), now: now}
	var report int64
	if j.Rec != nil {
		sit, report = situationOfJob(v, j.Rec, now)
	}
	d := decideFound(sit, f)
	key := record.JobReportKey(f.cluster, id, f.attempt)
	out = &step{name: "found", rev: j.Rev, next: d.next, watch: map[string]int64{key: f.rev}}
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
		if d.next.State.Ended() && d.next.State != record.JobParked && !d.next.Kept {
			out.remove = append(out.remove, record.EventKey(id))
		}
		return out, true
	}
	assignment := assignmentOf(&d.next)
	assignment.Cancel = d.next.Cancel != ""
	out.put = append(out.put, gate.Staged{Key: record.AssignmentKey(f.cluster, id, f.attempt), Rec: assignment})
	return out, true
}

// standsAs says whether an OSCAR can have a Job in a state, as a report names it. Two ends are none of OSCAR's.
func standsAs(state record.JobState) bool {
	return state.Posted() && state != record.JobParked && state != record.JobReturned
}

// mayRecord says whether there may be one more record of an unknown job that a cluster has found in a state, of which most
// may have ended. A cluster can make up as many as it may have keys, and the records outlive its reports. For those that run
// there is place when the others have taken theirs.
func mayRecord(v *view.View, cluster string, state record.JobState, most int) bool {
	if !state.Ended() {
		most *= 2
	}
	return v.Jobs.OfFound.Get(cluster) < most
}

// waitingFound lists the unknown jobs that were found and may have a record.
func waitingFound(v *view.View, most int) (ids []string) {
	for id := range v.Jobs.Found.Keys() {
		if _, ok, _ := foundOf(v, id, most); ok && !v.Jobs.ByID.Has(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// foundOf returns the highest attempt that was found of a job; of a job without a record, of the clusters for which there may
// be one more, see mayRecord. full is a cluster for which there may not.
func foundOf(v *view.View, id string, most int) (out foundAttempt, ok bool, full string) {
	if v.Epoch() == "" {
		return out, false, ""
	}
	for at := range v.Jobs.Found.Of(id) {
		n := v.Nodes.Get(at.Cluster)
		r := n.Reports.Get(view.AttemptID{Job: id, Attempt: at.Attempt})
		if r.Rec == nil || r.Rec.Epoch != v.Epoch() || !standsAs(r.Rec.State) {
			continue
		}
		if _, asked := n.Assignments.Lookup(view.AttemptID{Job: id, Attempt: at.Attempt}); asked {
			continue // it was adopted
		}
		if !v.Jobs.ByID.Has(id) && !mayRecord(v, at.Cluster, r.Rec.State, most) {
			full = at.Cluster
			continue
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
	return out, ok, full
}

// isFound says whether an attempt was found of a job that has a record.
func isFound(v *view.View, id string) bool {
	_, found, _ := foundOf(v, id, 0)
	return found
}

// foundTooMany says once that jobs which a cluster has found wait for a record.
func (c *Controller) foundTooMany(cluster string) {
	c.reconciler.mu.Lock()
	told := c.reconciler.full[cluster]
	c.reconciler.full[cluster] = true
	c.reconciler.mu.Unlock()
	if !told {
		c.cfg.Logger.Warn("a cluster has found more jobs that nobody knows than one may; the others get a record when older ones are forgotten",
			"cluster", cluster, "most", c.cfg.KeepAtMost.OfFederation)
	}
}

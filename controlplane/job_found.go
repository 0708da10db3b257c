package controlplane

import (
	"cmp"
	"maps"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// foundAt names an attempt that was found on a cluster.
type foundAt struct {
	cluster string
	attempt int
}

// noteFound keeps the index of what was found after a restore.
func (x *jobIndex) noteFound(job string, at foundAt, found bool) {
	switch {
	case found && x.found[job] == nil:
		x.found[job] = map[foundAt]bool{at: true}
	case found:
		x.found[job][at] = true
	default:
		if delete(x.found[job], at); len(x.found[job]) == 0 {
			delete(x.found, job)
		}
	}
}

// foundStep deals with what was found of a job; nil when nothing was. It counts in a new
// epoch only, from a cluster that has a replica of the name.
func (v *View) foundStep(id string, now time.Time) *jobStep {
	f, ok := v.foundOf(id)
	if !ok {
		return nil
	}
	j := v.jobs.all[id]
	sit := jobSituation{job: record.Job{Job: id}, epoch: v.epoch(), now: now}
	var report int64
	if j.rec != nil {
		sit, report = v.jobSituation(j.rec, now)
	}
	d := decideFound(sit, f)
	key := record.JobReportKey(f.cluster, id, f.attempt)
	out := &jobStep{name: "found", rev: j.rev, next: d.next, watch: map[string]int64{key: f.rev}}
	if j.rec != nil {
		out.was = *j.rec
	}
	if d.drop {
		old := v.stepOf(j, report, jobDecision{name: "found", next: d.next, drop: true})
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
	out.put = append(out.put, staged{record.AssignmentKey(f.cluster, id, f.attempt), assignmentOf(&d.next)})
	return out
}

// foundOf gives the highest attempt that was found of a job.
func (v *View) foundOf(id string) (out foundAttempt, ok bool) {
	if v.epoch() == "" {
		return out, false
	}
	for at := range v.jobs.found[id] {
		n := v.nodes[at.cluster]
		r := n.reports[attemptID{id, at.attempt}]
		if r.rec == nil || r.rec.Epoch != v.epoch() || !r.rec.State.Posted() {
			continue
		}
		if _, asked := n.assignments[attemptID{id, at.attempt}]; asked {
			continue // it was adopted
		}
		if ok && cmp.Or(cmp.Compare(out.attempt, at.attempt), cmp.Compare(at.cluster, out.cluster)) >= 0 {
			continue
		}
		d := n.desired[r.rec.Service].rec
		next := foundAttempt{cluster: at.cluster, attempt: at.attempt, report: *r.rec, rev: r.rev, clusterUID: v.clusterUID(at.cluster)}
		if d != nil {
			next.fed = v.federations[d.Federation].rec
			next.member = record.Member{UID: d.UID}
		}
		if j := v.jobs.all[id].rec; j != nil && (d == nil || d.Federation != j.Federation) {
			continue // it is not for this cluster to say
		}
		out, ok = next, true
	}
	return out, ok
}

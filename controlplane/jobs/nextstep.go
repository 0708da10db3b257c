package jobs

import (
	"cmp"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store/record"
)

// stepConfig are the inputs of a step that are not in the state.
type stepConfig struct {
	now time.Time
	// seen is when this instance first saw the pauses of jobs, and frozen Jobs.
	seen *clock.FirstSeen
	// lost says whether a cluster has been away for so long that its claimed jobs go to others.
	lost func(cluster string) bool
	// tooMany says that a job that is offered would be one too many.
	tooMany func(*view.View, *offerSituation) bool
	// ofFound is of how many unknown jobs that have ended one cluster may be the source, and full is told of a cluster that
	// is of no more.
	ofFound int
	full    func(cluster string)
}

// stepConfig has the offered Jobs that are taken already.
func (c *Controller) stepConfig(taken taking) stepConfig {
	return stepConfig{
		now: c.cfg.Now(), seen: &c.seen, lost: c.clusterLost,
		tooMany: func(v *view.View, sit *offerSituation) bool { return c.tooMany(v, sit, taken) },
		ofFound: c.cfg.KeepAtMost.OfFederation, full: c.foundTooMany,
	}
}

// nextStep decides on one job; nil for no step.
func nextStep(v *view.View, id string, cfg stepConfig) *step {
	if p, found := foundStep(v, id, cfg); found {
		return p
	}
	j, ok := v.Jobs.ByID.Lookup(id)
	if ok && holderGone(v, j.Rec) {
		return thawStep(v, j, cfg.now)
	}
	if p := offerStep(v, id, cfg); p != nil {
		return p
	}
	if !ok {
		return nil
	}
	if heir := v.Heir(j.Rec.Federation); heir != nil && !j.Rec.State.Ended() {
		next := *j.Rec
		next.Federation, next.GroupID = heir.UID, heir.GroupID
		touch(&next, record.At(cfg.now))
		return &step{name: "follow", rev: j.Rev, was: *j.Rec, next: next, watch: map[string]int64{record.FederationKey(heir.UID): v.Federations.Get(heir.UID).Rev}}
	}
	sit, report := situationOfJob(v, j.Rec, cfg.now)
	if p := j.Rec.Place; p != nil {
		sit.lost = cfg.lost(p.ClusterID)
	}
	d := decide(sit)
	if d.name == "" {
		return nil
	}
	return stepOf(v, j, report, d)
}

// holderGone says whether a job stands frozen at a cluster that is not registered any more, or as another
// one. Nobody gives the Job back there, and nothing of it can start.
func holderGone(v *view.View, j *record.Job) bool {
	if j.Frozen == nil || j.State.Ended() {
		return false
	}
	if thawed(v, j) {
		return false // it has started there
	}
	reg, ok := v.Clusters.Lookup(j.Frozen.ClusterID)
	return !ok || j.Frozen.ClusterUID != "" && reg.Rec.UID != j.Frozen.ClusterUID
}

// thawed says that what a job stands frozen as is not frozen any more.
func thawed(v *view.View, j *record.Job) bool {
	if j.Frozen == nil {
		return false
	}
	o := v.Nodes.Get(j.Frozen.ClusterID).Offers.Get(j.Job).Rec
	return o != nil && o.State != record.OfferFrozen && o.State != record.OfferWaiting
}

// thawStep forgets where a job stands frozen: it is like any other of its state then.
func thawStep(v *view.View, j view.Versioned[record.Job], now time.Time) *step {
	cluster := j.Rec.Frozen.ClusterID
	next := *j.Rec
	next.Frozen, next.FrozenAt = nil, nil
	touch(&next, record.At(now))
	return &step{name: "thaw", rev: j.Rev, was: *j.Rec, next: next, watch: map[string]int64{record.ClusterKey(cluster): v.Clusters.Get(cluster).Rev}}
}

// stepOf makes a decision about a job ready to be written.
func stepOf(v *view.View, j view.Versioned[record.Job], report int64, d decision) *step {
	out := &step{name: d.name, rev: j.Rev, was: *j.Rec, next: d.next, watch: map[string]int64{}}
	p, n := j.Rec.Place, j.Rec.Attempt
	if d.dropEvent {
		out.remove = append(out.remove, record.EventKey(j.Rec.Job))
	}
	if f := j.Rec.Frozen; f != nil && d.next.State.Ended() && d.next.State != record.JobParked {
		// The frozen Job is released, unless no attempt of the job has ever run.
		word := record.OfferRelease
		if d.next.State == record.JobFailed && d.next.Reason == record.JobEventLost {
			word = record.OfferRestore
		}
		out.next.Frozen, out.next.FrozenAt = nil, nil
		if _, registered := v.Clusters.Lookup(f.ClusterID); registered {
			out.put = append(out.put, gate.Staged{Key: record.OfferAnswerKey(f.ClusterID, j.Rec.Job), Rec: answer(v, word, &d.next, d.next.ChangedAt)})
		}
		// Its syncer may say at this moment that the Job has started.
		out.watch[record.OfferKey(f.ClusterID, j.Rec.Job)] = v.Nodes.Get(f.ClusterID).Offers.Get(j.Rec.Job).Rev
	}
	if p == nil || p.URL != "" || j.Rec.State == record.JobQueued {
		return out
	}
	out.posted = postedAt(j.Rec, v.Nodes.Get(p.ClusterID).Reports.Get(view.AttemptID{Job: j.Rec.Job, Attempt: n}).Rec)
	key := record.JobReportKey(p.ClusterID, j.Rec.Job, n)
	out.watch[key] = report
	if d.fenced {
		out.watch[record.SessionKey(p.ClusterID)] = v.Session(p.ClusterID)
	}
	if d.drop {
		out.remove = append(out.remove, record.AssignmentKey(p.ClusterID, j.Rec.Job, n), record.AssignedEventKey(p.ClusterID, j.Rec.Job, n))
		if report != 0 {
			out.remove = append(out.remove, key)
		}
	}
	if d.cancel || d.posted || d.resolve != "" {
		a := *v.Nodes.Get(p.ClusterID).Assignments.Get(view.AttemptID{Job: j.Rec.Job, Attempt: n}).Rec
		a.Cancel, a.Posted = a.Cancel || d.cancel, a.Posted || d.posted
		a.Resolved = cmp.Or(d.resolve, a.Resolved)
		out.put = append(out.put, gate.Staged{Key: record.AssignmentKey(p.ClusterID, j.Rec.Job, n), Rec: a})
	}
	return out
}

// situationOfJob reads the situation of one job and the revision of its report.
func situationOfJob(v *view.View, j *record.Job, now time.Time) (situation, int64) {
	sit := situation{job: *j, epoch: v.Epoch(), epochOf: j.Epoch, now: now}
	f, ok := v.Federations.Lookup(j.Federation)
	sit.disbanded = !ok || f.Rec.Phase == record.PhaseDeleting || f.Rec.Phase == record.PhaseRollingBack || f.Rec.Phase.Result()
	sit.thawed = thawed(v, j)
	p := j.Place
	if p == nil || p.ClusterID == "" || j.State == record.JobQueued || j.State.Ended() {
		return sit, 0
	}
	reg, ok := v.Clusters.Lookup(p.ClusterID)
	sit.registered = ok && (p.ClusterUID == "" || reg.Rec.UID == p.ClusterUID)
	sit.stopped = !ok || reg.Rec.State != record.ClusterActive
	sit.revoked = ok && reg.Rec.Revoked != nil
	sit.session, sit.listed = v.Session(p.ClusterID), v.Listed(p.ClusterID)
	d := v.Desired(p.ClusterID, p.ServiceName).Rec
	sit.gone = d == nil || d.UID != p.UID || d.Tombstone()
	sit.absent = d != nil && absent(d, v.Observed(p.ClusterID, p.ServiceName).Rec)
	sit.cancels = d != nil && d.UID == p.UID && d.Tombstone() && d.Jobs == record.JobsCancel
	n, ok := v.Nodes.Lookup(p.ClusterID)
	if !ok {
		return sit, 0
	}
	id := view.AttemptID{Job: j.Job, Attempt: j.Attempt}
	if a := n.Assignments.Get(id).Rec; a != nil {
		sit.assigned, sit.cancelSent, sit.postedSent, sit.resolution, sit.epochOf = true, a.Cancel, a.Posted, a.Resolved, a.Epoch
	}
	report := n.Reports.Get(id)
	sit.report = report.Rec
	return sit, report.Rev
}

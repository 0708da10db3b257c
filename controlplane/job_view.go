package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Job is a job as callers see it: its record, and what its syncer says of the present
// attempt.
type Job struct {
	ID string
	// Federation and GroupID; ClusterID and Service are where it came in.
	Federation, GroupID, Owner, ClusterID, Service string
	// By is who sent it; empty for the service's own token. Offered says that it was a
	// Job of the cluster that it came in at.
	By      string
	Offered bool
	Size    int
	State   record.JobState
	// Unreachable says that the cluster where it stands is away: State is the last that
	// was heard.
	Unreachable bool
	// Held says that a member might have it since the store was restored.
	Held bool
	// Attempt is the number of the present or last one, 0 before the first. Place is
	// where it is, or was; nil before.
	Attempt int
	Place   *record.Place
	// Attempts are those that ended before, oldest first; of many the last.
	Attempts []record.Attempt
	Tries    int
	Cancel   string
	Reason   record.JobReason
	Message  string
	// Pod is what the pod of the last attempt has told; nil for nothing.
	Pod *record.JobPod
	// Revision of the job's record; StreamRevision is the one at which the job, or what
	// is reported of its present attempt, was last written.
	Revision, StreamRevision                   int64
	RequestID                                  string
	AcceptedAt, ChangedAt                      time.Time
	NotBefore, SubmittedAt, StartedAt, EndedAt *time.Time
	// Replayed says that the answer is that of the same request before.
	Replayed bool
}

// MaxJobsPage is the most jobs that one answer has.
const MaxJobsPage = 1000

// JobQuery says which jobs are asked for. Empty fields match everything.
type JobQuery struct {
	// Federation is a uid or a group_id; Service is the one that it came in at, and
	// ClusterID where it came in or stands.
	Federation, Service, ClusterID string
	// States: a job is in one of them.
	States []JobState
	// Before is the id of a job: only those that were accepted before are given.
	Before string
	// Limit is how many at most; 0 means 100, more than MaxJobsPage are not given.
	Limit int
}

func (q JobQuery) matches(j *Job) bool {
	is := func(want string, have ...string) bool { return want == "" || slices.Contains(have, want) }
	at := ""
	if j.Place != nil {
		at = j.Place.ClusterID
	}
	return is(q.Federation, j.Federation, j.GroupID) && is(q.Service, j.Service) && is(q.ClusterID, j.ClusterID, at) &&
		(len(q.States) == 0 || slices.Contains(q.States, j.State))
}

// Jobs lists jobs that the caller may see, the newest first, and whether there may be
// more.
func (c *ControlPlane) Jobs(ctx context.Context, caller identity.Caller, q JobQuery) (jobs []Job, more bool, err error) {
	if err := c.fresh(ctx); err != nil {
		return nil, false, err
	}
	limit := min(cmp.Or(max(q.Limit, 0), 100), MaxJobsPage)
	jobs = []Job{}
	c.state.read(func(v *View) {
		order := v.jobs.order
		if q.Before != "" {
			at, _ := slices.BinarySearch(order, q.Before)
			order = order[:at]
		}
		for _, id := range slices.Backward(order) {
			rec := v.jobs.all[id].rec
			if q.Service != "" && rec.Service != q.Service || !v.mayReadJob(caller, rec) {
				continue
			}
			view := v.jobView(id)
			if !q.matches(view) {
				continue
			}
			if len(jobs) == limit {
				more = true
				return
			}
			jobs = append(jobs, *view)
		}
	})
	return jobs, more, nil
}

// Job shows one job.
func (c *ControlPlane) Job(ctx context.Context, caller identity.Caller, id string) (*Job, error) {
	if err := c.fresh(ctx); err != nil {
		return nil, err
	}
	return c.jobAsSeen(caller, id)
}

// jobAsSeen is Job as the state knows it.
func (c *ControlPlane) jobAsSeen(caller identity.Caller, id string) (view *Job, err error) {
	c.state.read(func(v *View) {
		if j, ok := v.jobs.all[id]; ok && v.mayReadJob(caller, j.rec) {
			view = v.jobView(id)
		}
	})
	if view == nil {
		return nil, notFound(fmt.Sprintf("there is no job %q", id))
	}
	return view, nil
}

// mayReadJob says whether a caller may see a job: who may see its federation, its owner, and
// who sent it.
func (v *View) mayReadJob(caller identity.Caller, j *record.Job) bool {
	if caller.MayChange(j.Owner) || j.By != "" && caller.Subject == j.By {
		return true
	}
	f := v.federations[j.Federation].rec
	return f != nil && caller.MayRead(f.Owner, f.Visibility, f.AllowedUsers)
}

// jobView is nil when there is no such job.
func (v *View) jobView(id string) *Job {
	value, ok := v.jobs.all[id]
	if !ok {
		return nil
	}
	j := value.rec
	out := &Job{
		ID: j.Job, Federation: j.Federation, GroupID: j.GroupID, Owner: j.Owner, ClusterID: j.Cluster, Service: j.Service,
		By: j.By, Offered: j.Offered, Size: j.Size, State: j.State, Attempt: j.Attempt, Place: j.Place,
		Attempts: slices.Clone(j.Past), Tries: j.Tries, Cancel: j.Cancel, Reason: j.Reason, Message: j.Message, Pod: j.Pod,
		Revision: value.rev, StreamRevision: value.rev, RequestID: j.RequestID, AcceptedAt: j.AcceptedAt.Time, ChangedAt: j.ChangedAt.Time,
		NotBefore: timeOf(j.NotBefore), StartedAt: timeOf(j.StartedAt), EndedAt: timeOf(j.EndedAt),
	}
	if j.State == record.JobQueued {
		out.Held = v.jobHeld(j)
	}
	if j.State != record.JobAssigned && j.State != record.JobRunning || j.Place == nil {
		return out
	}
	if j.Place.URL != "" {
		if j.Posting != nil {
			out.State = record.JobSubmitting
		}
		return out
	}
	n := v.nodes[j.Place.ClusterID]
	if n == nil {
		return out
	}
	report := n.reports[attemptID{j.Job, j.Attempt}]
	out.StreamRevision = max(out.StreamRevision, report.rev)
	r := report.rec
	away := v.session(j.Place.ClusterID) == 0
	if r == nil || r.State == "" {
		out.Unreachable = away && (j.Posted || j.State == record.JobRunning)
		return out
	}
	out.State, out.ChangedAt = r.State, r.LastTransitionTime.Time
	if r.State == record.JobRefused {
		out.State = record.JobQueued // or parked, as soon as its record says so
	}
	out.Reason, out.Message = cmp.Or(r.Reason, j.Reason), cmp.Or(cut(r.Message, maxJobMessage), j.Message)
	out.SubmittedAt, out.Pod = timeOf(r.PostedAt), podOf(r)
	out.StartedAt, out.EndedAt = cmp.Or(timeOf(r.StartedAt), out.StartedAt), cmp.Or(timeOf(r.EndedAt), out.EndedAt)
	if away && !r.State.Ended() {
		out.Unreachable = true
		out.Message = fmt.Sprintf("cluster %q is away; it was %s when it was last heard of", j.Place.ClusterID, r.State)
	}
	return out
}

// jobHeld says whether a queued job waits since a restore of the store.
func (v *View) jobHeld(j *record.Job) bool {
	f := v.federations[j.Federation].rec
	return f != nil && j.Epoch != v.epoch() && slices.ContainsFunc(f.Members, func(m record.Member) bool {
		return m.Replica() && !v.listed(m.ClusterID)
	})
}

func timeOf(t *record.Time) *time.Time {
	if t == nil {
		return nil
	}
	return &t.Time
}

// JobDecision is why an attempt went where it went.
type JobDecision struct {
	// Attempt that was made; for the choice as it would be made now, one that was not.
	Attempt int
	At      time.Time
	// Now says that it was not made: it is how the job stands at present.
	Now      bool
	Snapshot delegation.Snapshot
	Decision delegation.Decision
}

// ExplainJob tells the choices that were made for a job, newest first, and for one that
// is queued the one that would be made now.
func (c *ControlPlane) ExplainJob(ctx context.Context, caller identity.Caller, id string) (*Job, []JobDecision, error) {
	view, err := c.Job(ctx, caller, id)
	if err != nil {
		return nil, nil, err
	}
	var keys []string
	for n := max(1, view.Attempt-keepAttempts+1); n <= view.Attempt; n++ {
		keys = append(keys, record.DecisionKey(id, n))
	}
	read, err := c.store.Read(ctx, keys...)
	if err != nil {
		return nil, nil, crossing(err)
	}
	out := []JobDecision{}
	for _, key := range keys {
		kv, ok := read.KV(key)
		if !ok {
			continue
		}
		rec, err := store.Decode[record.Decision](kv)
		if err != nil {
			return nil, nil, crossing(err)
		}
		why, err := decodeDecision(rec)
		if err != nil {
			return nil, nil, crossing(&store.CorruptError{Key: kv.Key, Err: err})
		}
		out = append(out, JobDecision{Attempt: record.ParseKey(kv.Key).AttemptOf(), At: rec.At.Time, Snapshot: why.Snapshot, Decision: why.Decision})
	}
	if view.State == record.JobQueued {
		now, err := c.choiceNow(ctx, id)
		if err != nil {
			return nil, nil, crossing(err)
		}
		if now != nil {
			out = append(out, *now)
		}
	}
	slices.SortStableFunc(out, func(a, b JobDecision) int { return cmp.Compare(b.Attempt, a.Attempt) })
	return view, out, nil
}

// choiceNow is the choice that would be made for a queued job; nil when none is.
func (c *ControlPlane) choiceNow(ctx context.Context, id string) (*JobDecision, error) {
	var f *record.Federation
	c.state.read(func(v *View) {
		if j := v.jobs.all[id].rec; j != nil {
			f = v.federations[j.Federation].rec
		}
	})
	if f == nil {
		return nil, nil
	}
	need, err := c.needsOf(ctx, f)
	if err != nil {
		return nil, err
	}
	var out *JobDecision
	c.state.read(func(v *View) {
		j := v.jobs.all[id].rec
		if j == nil {
			return
		}
		if fl, ok := v.field(f.UID, need); ok {
			snapshot, decision := fl.choose(j)
			out = &JobDecision{Attempt: j.Attempt + 1, At: c.cfg.Now(), Now: true, Snapshot: snapshot, Decision: decision}
		}
	})
	return out, nil
}

package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Job is a job as callers see it: its record, and what its syncer says of the present
// attempt.
type Job struct {
	ID       string
	Position Position
	// ClusterID and Service name the replica that received it.
	Federation, GroupID, Owner, ClusterID, Service string
	// By is the subject of its sender; empty for the service's own token. Offered says that it
	// was a Job of the cluster that received it.
	By      string
	Offered bool
	Size    int
	State   record.JobState
	// Unreachable says that the cluster that has it is away: State is the last reported one.
	Unreachable bool
	// Held says that a member might have it since the store was restored.
	Held bool
	// Attempt is the number of the present or last one, 0 before the first. Place is its location;
	// nil before.
	Attempt int
	Place   *record.Place
	// Attempts are those that ended before, oldest first; of many the last.
	Attempts []record.Attempt
	Tries    int
	Cancel   string
	Reason   record.JobReason
	Message  string
	// Pod is the report on the pod of the last attempt; nil for none.
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

// List lists jobs that the caller may see, the newest first, and whether there may be
// more.
func (c *Controller) List(ctx context.Context, caller identity.Caller, q Query) (jobs []Job, more bool, err error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, false, err
	}
	c.state.Read(func(v *view.View) { jobs, more = page(v, caller, q) })
	return jobs, more, nil
}

// page is List in a view.
func page(v *view.View, caller identity.Caller, q Query) (jobs []Job, more bool) {
	limit := listing.Limit(q.Limit)
	jobs = []Job{}
	for p := range view.NewestOf(q.lists(v, caller)) {
		if p < q.first() {
			break
		}
		id := p.ID()
		head := v.Jobs.ByID.Head(id)
		if !q.may(head) || !mayReadJob(v, caller, head) {
			continue
		}
		view := viewOf(v, id)
		if !q.matches(view) {
			continue
		}
		if len(jobs) == limit {
			return jobs, true
		}
		jobs = append(jobs, *view)
	}
	return jobs, false
}

// Get shows one job.
func (c *Controller) Get(ctx context.Context, caller identity.Caller, id string) (*Job, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	return c.Lookup(caller, id)
}

// Lookup is Get from the state as it is, which may be a little old.
func (c *Controller) Lookup(caller identity.Caller, id string) (shown *Job, err error) {
	c.state.Read(func(v *view.View) {
		if v.Jobs.ByID.Has(id) && mayReadJob(v, caller, v.Jobs.ByID.Head(id)) {
			shown = viewOf(v, id)
		}
	})
	if shown == nil {
		return nil, fault.NotFound(fmt.Sprintf("there is no job %q", id))
	}
	return shown, nil
}

// mayReadJob says whether a caller may see a job: its owner, its sender, and each reader of its
// federation may.
func mayReadJob(v *view.View, caller identity.Caller, j view.JobHead) bool {
	if caller.MayChange(j.Owner) || j.By != "" && caller.Subject == j.By {
		return true
	}
	f := v.Federations.Get(j.Federation).Rec
	return f != nil && caller.MayRead(f.Owner, f.Visibility, f.AllowedUsers)
}

// viewOf is nil when there is no such job.
func viewOf(v *view.View, id string) *Job {
	value, ok := v.Jobs.ByID.Lookup(id)
	if !ok {
		return nil
	}
	j := value.Rec
	out := &Job{
		ID: j.Job, Position: view.PositionOf(j), Federation: j.Federation, GroupID: j.GroupID, Owner: j.Owner, ClusterID: j.Cluster, Service: j.Service,
		By: j.By, Offered: j.Offered, Size: j.Size, State: v.JobState(j), Attempt: j.Attempt, Place: j.Place,
		Attempts: slices.Clone(j.Past), Tries: j.Tries, Cancel: j.Cancel, Reason: j.Reason, Message: j.Message, Pod: j.Pod,
		Revision: value.Rev, StreamRevision: value.Rev, RequestID: j.RequestID, AcceptedAt: j.AcceptedAt.Time, ChangedAt: j.ChangedAt.Time,
		NotBefore: view.TimeOf(j.NotBefore), StartedAt: view.TimeOf(j.StartedAt), EndedAt: view.TimeOf(j.EndedAt),
	}
	if j.State == record.JobQueued {
		out.Held = jobHeld(v, j)
		out.Reason, out.Message = whyWaits(v, j)
	}
	report, ok := reportOf(v, j)
	if !ok {
		return out
	}
	out.StreamRevision = max(out.StreamRevision, report.Rev)
	r := report.Rec
	away := v.Session(j.Place.ClusterID) == 0
	if r == nil || r.State == "" {
		out.Unreachable = away && (j.Posted || j.State == record.JobRunning)
		return out
	}
	out.ChangedAt = r.LastTransitionTime.Time
	out.Reason, out.Message = cmp.Or(r.Reason, j.Reason), cmp.Or(view.Shorten(r.Message, maxMessage), j.Message)
	out.SubmittedAt, out.Pod = view.TimeOf(r.PostedAt), podOf(r)
	out.StartedAt, out.EndedAt = cmp.Or(view.TimeOf(r.StartedAt), out.StartedAt), cmp.Or(view.TimeOf(r.EndedAt), out.EndedAt)
	if away && !r.State.Ended() {
		out.Unreachable = true
		out.Message = fmt.Sprintf("cluster %q is away; it was %s when it was last heard of", j.Place.ClusterID, r.State)
	}
	return out
}

// reportOf is what is reported of the present attempt of a job; ok is false when no cluster has one.
func reportOf(v *view.View, j *record.Job) (report view.Versioned[record.JobReport], ok bool) {
	if j.State != record.JobAssigned && j.State != record.JobRunning || j.Place == nil || j.Place.URL != "" {
		return report, false
	}
	n, ok := v.Nodes.Lookup(j.Place.ClusterID)
	if !ok {
		return report, false
	}
	return n.Reports.Get(view.AttemptID{Job: j.Job, Attempt: j.Attempt}), true
}

// streamRevision is Job.StreamRevision of a job with a head.
func streamRevision(v *view.View, id string, h view.JobHead) int64 {
	if h.State == record.JobQueued || h.State.Ended() {
		return h.Revision // and its record need not be made
	}
	report, _ := reportOf(v, v.Jobs.ByID.Get(id).Rec)
	return max(h.Revision, report.Rev)
}

// jobHeld says whether a queued job waits since a restore of the store.
func jobHeld(v *view.View, j *record.Job) bool {
	f := v.Federations.Get(j.Federation).Rec
	return f != nil && j.Epoch != v.Epoch() && !allListed(v, f)
}

// allListed says whether every member of a federation has told of its Jobs in the present epoch.
func allListed(v *view.View, f *record.Federation) bool {
	return !slices.ContainsFunc(f.Members, func(m record.Member) bool { return m.Replica() && !v.Listed(m.ClusterID) })
}

// Explanation is the choice of a member for one attempt, with its input.
type Explanation struct {
	// Attempt that was made; for the choice as it would be made now, one that was not.
	Attempt int
	At      time.Time
	// Now says that it was not made: it is the choice as it would be made now.
	Now      bool
	Snapshot delegation.Snapshot
	Decision delegation.Decision
}

// Explain lists the choices that were made for a job, newest first, and for a queued job
// also the one that would be made now.
func (c *Controller) Explain(ctx context.Context, caller identity.Caller, id string) (*Job, []Explanation, error) {
	view, err := c.Get(ctx, caller, id)
	if err != nil {
		return nil, nil, err
	}
	var keys []string
	for n := max(1, view.Attempt-keepAttempts+1); n <= view.Attempt; n++ {
		keys = append(keys, record.DecisionKey(id, n))
	}
	read, err := c.store.Read(ctx, keys...)
	if err != nil {
		return nil, nil, fault.Crossing(err)
	}
	out := []Explanation{}
	for _, key := range keys {
		kv, ok := read.KV(key)
		if !ok {
			continue
		}
		rec, err := store.Decode[record.Decision](kv)
		if err != nil {
			return nil, nil, fault.Crossing(err)
		}
		why, err := decodeDecision(rec)
		if err != nil {
			return nil, nil, fault.Crossing(&store.CorruptError{Key: kv.Key, Err: err})
		}
		out = append(out, Explanation{Attempt: record.ParseKey(kv.Key).AttemptOf(), At: rec.At.Time, Snapshot: why.Snapshot, Decision: why.Decision})
	}
	if view.State == record.JobQueued {
		now, err := c.choiceNow(ctx, id)
		if err != nil {
			return nil, nil, fault.Crossing(err)
		}
		if now != nil {
			out = append(out, *now)
		}
	}
	slices.SortStableFunc(out, func(a, b Explanation) int { return cmp.Compare(b.Attempt, a.Attempt) })
	return view, out, nil
}

// choiceNow is the choice that would be made for a queued job; nil when none is.
func (c *Controller) choiceNow(ctx context.Context, id string) (*Explanation, error) {
	var f *record.Federation
	c.state.Read(func(v *view.View) {
		if j := v.Jobs.ByID.Get(id).Rec; j != nil {
			f = v.Federations.Get(j.Federation).Rec
		}
	})
	if f == nil {
		return nil, nil
	}
	need, err := c.NeedsOf(ctx, f)
	if err != nil {
		return nil, err
	}
	var out *Explanation
	c.state.Read(func(v *view.View) {
		j := v.Jobs.ByID.Get(id).Rec
		if j == nil {
			return
		}
		if fl, ok := CandidatesOf(v, f.UID, need); ok {
			snapshot, decision := fl.choose(j)
			out = &Explanation{Attempt: j.Attempt + 1, At: c.cfg.Now(), Now: true, Snapshot: snapshot, Decision: decision}
		}
	})
	return out, nil
}

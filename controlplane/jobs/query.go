package jobs

import (
	"iter"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// Query says which jobs are asked for. Empty fields match everything.
type Query struct {
	// Federation is a uid or a group_id; Service is the one that received it, and ClusterID the
	// cluster that received it, has it or had it.
	Federation, Service, ClusterID string
	// States: a job is in one of them.
	States []State
	// Since and Until bound when a job was accepted: not before Since, and before Until. Zero times
	// bound nothing.
	Since, Until time.Time
	// Before is the position of a job: only those that were accepted before are given.
	Before Position
	// Limit is how many at most; 0 means 100, more than v1.MaxPage are not given.
	Limit int
}

// Position is the place of a job in the order of acceptance.
type Position = view.JobPosition

// acceptance is how much later than the time in its id a job can have been accepted: both are read
// one after the other, and a clock may be set in between. It can have been accepted much earlier:
// a process whose clock is set back goes on behind the ids that it has made.
const acceptance = time.Minute

// first is the first position that a job that matches can have.
func (q Query) first() Position {
	if q.Since.IsZero() {
		return ""
	}
	return Position(record.FirstUID(q.Since.Add(-acceptance)))
}

// timed says that the query asks for a time.
func (q Query) timed() bool { return !q.Since.IsZero() || !q.Until.IsZero() }

// acceptedIn says whether a job that was accepted then matches.
func (q Query) acceptedIn(at time.Time) bool {
	return !at.Before(q.Since) && (q.Until.IsZero() || at.Before(q.Until))
}

// lists are lists of jobs in which is every job that matches and that the caller may see.
func (q Query) lists(v *view.View, caller identity.Caller) []view.List {
	var out []view.List
	add := func(l view.List) {
		if q.Before != "" {
			l = l.Before(q.Before)
		}
		out = append(out, l)
	}
	if caller.Administrator && q.Federation == "" && q.Service == "" && q.ClusterID == "" {
		if q.begun() {
			add(v.Jobs.Begun)
		} else {
			add(v.Jobs.Order)
		}
		return out
	}
	for uid := range q.federations(v) {
		of := v.Jobs.ByFederation.Of(uid)
		f := v.Federations.Get(uid).Rec
		switch {
		case of.Empty():
		case q.Federation != "" && q.Federation != uid && q.Federation != v.Jobs.ByID.Head(of.First().ID()).GroupID:
		case f != nil && caller.MayRead(f.Owner, f.Visibility, f.AllowedUsers),
			caller.Administrator, caller.Subject != "" && v.Jobs.Subjects.Get(caller.Subject).Get(uid) > 0:
			add(of)
		}
	}
	return out
}

// walkAtOnce is how many jobs are looked at while the state is locked.
const walkAtOnce = 4096

// walk calls fn with the jobs that may match and that the caller may see, the newest first, until it answers false. The state
// is locked for some of them at a time, first with a call of begin. A job that changes after it is seen as it was or as it is.
func (c *Controller) walk(caller identity.Caller, q Query, begin func(*view.View), fn func(*view.View, Position, view.JobHead) bool) {
	for more := true; more; begin = nil {
		more = false
		c.state.Read(func(v *view.View) {
			if begin != nil {
				begin(v)
			}
			looked := 0
			for p := range view.NewestOf(q.lists(v, caller)) {
				if p < q.first() {
					return
				}
				if h := v.Jobs.ByID.Head(p.ID()); q.may(h) && mayReadJob(v, caller, h) && !fn(v, p, h) {
					return
				}
				if looked++; looked == walkAtOnce {
					q.Before, more = p, true
					return
				}
			}
		})
	}
}

// federations are those that have every job that matches.
func (q Query) federations(v *view.View) iter.Seq[string] {
	switch {
	case q.Service != "":
		return v.Jobs.Services.Get(q.Service).Keys()
	case q.ClusterID != "":
		return v.Jobs.Clusters.Get(q.ClusterID).Keys()
	}
	return v.Jobs.ByFederation.Keys()
}

// begun says that no queued job can match.
func (q Query) begun() bool { return len(q.States) > 0 && !slices.Contains(q.States, record.JobQueued) }

// may says whether a job with a head can match.
func (q Query) may(h view.JobHead) bool {
	if q.Service != "" && q.Service != h.Service || !q.acceptedIn(h.AcceptedAt) {
		return false
	}
	return len(q.States) == 0 || h.State != record.JobQueued && !h.State.Ended() || slices.Contains(q.States, h.State)
}

func (q Query) matches(j *Job) bool {
	is := func(want string, have ...string) bool { return want == "" || slices.Contains(have, want) }
	at := ""
	if j.Place != nil {
		at = j.Place.ClusterID
	}
	was := func(a record.Attempt) bool { return a.ClusterID == q.ClusterID }
	return is(q.Federation, j.Federation, j.GroupID) && is(q.Service, j.Service) &&
		(is(q.ClusterID, j.ClusterID, at) || slices.ContainsFunc(j.Attempts, was)) &&
		q.acceptedIn(j.AcceptedAt) && (len(q.States) == 0 || slices.Contains(q.States, j.State))
}

package runs

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// LogTarget names the service of the Jobs.
type LogTarget struct {
	Service string
	// ClusterID says which service of that name; empty for the caller's own.
	ClusterID string
}

// JobInfo is a Job as OSCAR lists it.
type JobInfo struct {
	Status    string `json:"status"`
	Created   string `json:"creation_time,omitempty"`
	Started   string `json:"start_time,omitempty"`
	Finished  string `json:"finish_time,omitempty"`
	ClusterID string `json:"-"`
}

// JobList is one page of the Jobs of all members.
type JobList struct {
	Jobs map[string]JobInfo
	// Next begins the next page; empty at the end.
	Next string
	// Remaining is how many more there are at least; nil when no member has said so.
	Remaining *int64
	// Missing says of the members that have no part in it why.
	Missing []string
}

// serviceOf is the service of the Jobs that a caller means, which he may read.
func (c *Controller) serviceOf(ctx context.Context, caller identity.Caller, in LogTarget) (view.MemberRef, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return view.MemberRef{}, err
	}
	p, err := c.state.Find(caller, in.Service, in.ClusterID)
	if err == nil && p.Rec.Phase.Result() {
		err = view.NoService(in.Service, p.Rec.Phase)
	}
	return p, err
}

// logMembers are the replicas whose Jobs a caller means: all of the federation for its
// coordinator, and otherwise the one that is named; for the name of an attempt of ours
// where that is, whichever is named.
func (c *Controller) logMembers(caller identity.Caller, p view.MemberRef, job string) (members []target, missing []string) {
	tenant := c.tenant(caller, p.Rec)
	list := []record.Member{p.At()}
	if p.At().Coordinator {
		list = p.Rec.Members
	}
	c.state.Read(func(v *view.View) {
		if at, known := attemptAt(v.Jobs.ByID.Get, p.Rec, job); known {
			list = at
		}
		for _, m := range list {
			if !m.Replica() {
				continue
			}
			if t, ok := targetOf(v, m); ok {
				t.Tenant, t.Wait = tenant, memberTimeout
				members = append(members, t)
			} else {
				missing = append(missing, m.ClusterID+": it has no rights any more")
			}
		}
	})
	return members, missing
}

// mayReadLog says whether a caller may see what a Job of a service that he may read has written:
// the owner of the service, and the sender of a job of ours. OSCAR shows a reader no Jobs; here he
// sees the names of others' jobs, and not their logs.
func (c *Controller) mayReadLog(caller identity.Caller, f *record.Federation, name string) bool {
	if caller.MayChange(f.Owner) {
		return true
	}
	id, _, ours := record.OfJobName(name)
	if !ours || caller.Subject == "" {
		return false
	}
	job, err := c.jobs.Lookup(caller, id)
	return err == nil && job.Federation == f.UID && job.By == caller.Subject
}

// attemptAt gives the members of a federation that an attempt of a job was given to, by its
// name at OSCAR: one, or after a restore perhaps two, and none when they have left. No other
// member is asked, since it could answer with something else. known is false for a name that
// is not a remembered attempt of a job of the federation.
func attemptAt(jobs func(id string) view.Versioned[record.Job], f *record.Federation, name string) (at []record.Member, known bool) {
	id, attempt, ours := record.OfJobName(name)
	j := jobs(id).Rec
	if !ours || j == nil || j.Federation != f.UID {
		return nil, false
	}
	was := map[string]bool{}
	if j.Place != nil && j.Attempt == attempt {
		was[j.Place.Where()] = true
	}
	for _, a := range j.Past {
		if a.Attempt == attempt {
			was[a.Place] = true
		}
	}
	for _, m := range f.Members {
		if m.Replica() && was[m.ClusterID+"/"+m.ServiceName] {
			at = append(at, m)
		}
	}
	return at, len(was) > 0
}

// JobLogs lists the Jobs of a service on all members.
func (c *Controller) JobLogs(ctx context.Context, caller identity.Caller, in LogTarget, page string) (*JobList, error) {
	cursor, err := readLogCursor(page)
	if err != nil {
		return nil, err
	}
	p, err := c.serviceOf(ctx, caller, in)
	if err != nil {
		return nil, err
	}
	if !caller.MayChange(p.Rec.Owner) { // as at OSCAR
		return &JobList{Jobs: map[string]JobInfo{}}, nil
	}
	members, missing := c.logMembers(caller, p, "")
	out, answered := jobList(ctx, members, cursor, c.jobPage)
	out.Missing = append(missing, out.Missing...)
	if !answered && out.Next == "" && len(out.Missing) > 0 {
		// An empty list would say that there are no Jobs.
		return nil, noneReached(in.Service, out.Missing)
	}
	return out, nil
}

// noneReached refuses a list of which no member has answered its part.
func noneReached(service string, missing []string) *fault.Error {
	return &fault.Error{Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second,
		Message: fmt.Sprintf("no member of %q could be reached: %s; start its syncer, or ask its OSCAR itself", service, strings.Join(missing, "; "))}
}

// ending is a body with whose end a request ends.
type ending struct {
	io.ReadCloser
	end context.CancelFunc
}

func (e *ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}

// JobLog streams the output of a Job from the member that has it. At OSCAR an unknown
// Job is a 500, and one whose pod has not started a 404: here both are not found.
func (c *Controller) JobLog(ctx context.Context, caller identity.Caller, in LogTarget, job string, timestamps bool) (*Answer, error) {
	p, err := c.serviceOf(ctx, caller, in)
	if err != nil {
		return nil, err
	}
	if !v1.JobName(job) || !c.mayReadLog(caller, p.Rec, job) {
		return nil, fault.NotFound(fmt.Sprintf("there is no log of %.100q", job))
	}
	members, missing := c.logMembers(caller, p, job)
	replies := everywhere(ctx, members,
		func(ctx context.Context, t target) (*http.Response, error) {
			return c.relay.Log(ctx, t.Replica, job, timestamps)
		},
		func(r reply) bool { return r.resp.StatusCode == http.StatusOK })
	found, unasked := logOf(replies)
	missing = append(missing, unasked...)
	switch {
	case found != nil:
		return found, nil
	case len(missing) > 0:
		return nil, &fault.Error{Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second,
			Message: fmt.Sprintf("no member that answers has a log of %q; not asked: %s%s", job, strings.Join(missing, "; "), c.whyNoLog(caller, job))}
	}
	return nil, fault.NotFound(fmt.Sprintf("there is no log of %q%s", job, c.whyNoLog(caller, job)))
}

// logOf is the log among the replies of members; nil when there is none. missing says of the members that
// may have it why it is not known.
func logOf(replies []reply) (found *Answer, missing []string) {
	for _, r := range replies {
		switch {
		case r.err != nil:
			missing = append(missing, r.Cluster+": "+reasonOf(r.err))
		case r.resp.StatusCode == http.StatusOK && r.late:
			missing = append(missing, r.Cluster+": "+reasonOf(tooSlow(nil)))
			_ = r.resp.Body.Close()
		case r.resp.StatusCode == http.StatusOK && found == nil:
			found = &Answer{ClusterID: r.Cluster, Status: r.resp.StatusCode, Header: r.resp.Header, Length: r.resp.ContentLength, Body: r.resp.Body}
		default:
			_ = r.resp.Body.Close() // it is not read
		}
	}
	return found, missing
}

// whyNoLog says how an attempt of a job stands that has no log; empty for what is none that the
// caller may see.
func (c *Controller) whyNoLog(caller identity.Caller, name string) string {
	id, attempt, ours := record.OfJobName(name)
	if !ours {
		return ""
	}
	view, err := c.jobs.Lookup(caller, id)
	if err != nil {
		return ""
	}
	state, reason, message := view.State, view.Reason, view.Message
	if attempt != view.Attempt || view.State == record.JobQueued {
		for _, a := range view.Attempts {
			if a.Attempt == attempt {
				state, reason, message = a.State, a.Reason, a.Message
			}
		}
	}
	words := slices.DeleteFunc([]string{"; job " + id + " is " + string(state), string(reason), message}, func(word string) bool { return word == "" })
	return strings.Join(words, ": ")
}

// DeleteJobLogs deletes Jobs of a service on all members: those that have succeeded, or all.
// It says of the members that were not reached why.
func (c *Controller) DeleteJobLogs(ctx context.Context, caller identity.Caller, in LogTarget, all bool) (missing []string, err error) {
	return c.deleteJobs(ctx, caller, in, "", func(ctx context.Context, t target) (*http.Response, error) {
		return c.relay.DeleteJobs(ctx, t.Replica, all)
	})
}

// DeleteJobLog deletes one Job, on whichever member it is.
func (c *Controller) DeleteJobLog(ctx context.Context, caller identity.Caller, in LogTarget, job string) (missing []string, err error) {
	if !v1.JobName(job) {
		return nil, fault.NotFound(fmt.Sprintf("there is no job %.100q", job))
	}
	return c.deleteJobs(ctx, caller, in, job, func(ctx context.Context, t target) (*http.Response, error) {
		return c.relay.DeleteJob(ctx, t.Replica, job)
	})
}

// deleteJobs sends a deletion to the members that may have what it names. job is the name of
// one Job, empty for many.
func (c *Controller) deleteJobs(ctx context.Context, caller identity.Caller, in LogTarget, job string, ask func(context.Context, target) (*http.Response, error)) ([]string, error) {
	p, err := c.serviceOf(ctx, caller, in)
	if err != nil {
		return nil, err
	}
	if !caller.MayChange(p.Rec.Owner) {
		return nil, &fault.Error{Code: fault.CodeForbidden, Message: "only its owner may delete the jobs of a service"}
	}
	members, missing := c.logMembers(caller, p, job)
	sent := order(ctx, members, missing, ask, http.StatusNoContent, http.StatusNotFound)
	switch {
	case sent.done > 0:
		return sent.missing, nil
	case sent.doubt:
		return nil, &fault.Error{Code: fault.CodeUnknownOutcome, Message: "what was deleted is not known; send it again: " + strings.Join(sent.missing, "; ")}
	case len(sent.missing) > 0:
		return nil, &fault.Error{Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second, Message: "nothing was deleted: " + strings.Join(sent.missing, "; ")}
	case job != "":
		return nil, fault.NotFound(fmt.Sprintf("there is no job %q", job))
	}
	return nil, view.NoService(in.Service, "")
}

package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

const jobsPath = "/system/jobs"

// jobHeader has the id of a job that was accepted.
const jobHeader = "X-Job-ID"

// JobOptions go with the submission of a job.
type JobOptions struct {
	// ClusterID says which service is meant when several have the name.
	ClusterID string
	// IdempotencyKey makes it safe to send the job again, here or later: it is one
	// job. Without one it is sent once.
	IdempotencyKey string
}

// SubmittedJob is a job that was accepted: it is stored, and nothing more is known of
// it yet.
type SubmittedJob struct {
	ID string
	// Location is the job's path in the API.
	Location string
	// Replayed says that an earlier request with the same key has made it.
	Replayed bool
}

// SubmitJob hands an event over for a service: UTF-8 without NUL, at most 96 KiB. The
// caller may be a user, the administrator, or the service by its own token.
func (c *Client) SubmitJob(ctx context.Context, service string, event []byte, opts JobOptions) (*SubmittedJob, error) {
	if event == nil {
		event = []byte{}
	}
	in := call{
		method: http.MethodPost, path: "/job/" + url.PathEscape(service), query: onCluster(opts.ClusterID), body: event,
		header: http.Header{"Content-Type": {"application/octet-stream"}}, brief: true,
	}
	if opts.IdempotencyKey != "" {
		in.header.Set(v1.IdempotencyHeader, opts.IdempotencyKey)
	}
	out, err := c.do(ctx, in)
	if err != nil {
		return nil, err
	}
	if out.header.Get(jobHeader) == "" { // what answers here is no control plane
		return nil, fmt.Errorf("%s %s: the answer names no job", in.method, in.path)
	}
	return &SubmittedJob{
		ID:       out.header.Get(jobHeader),
		Location: out.header.Get("Location"),
		Replayed: out.header.Get("Idempotent-Replayed") == "true",
	}, nil
}

// JobQuery says which jobs are wanted; what is empty matches all.
type JobQuery struct {
	// Service is the one that the job came in at; ClusterID where it came in, is or was.
	Service, ClusterID string
	// GroupID is a group_id, or the uid of a federation.
	GroupID string
	// States: a job has one of them.
	States []string
	// Since and Until bound when a job was accepted: not before Since, and before Until.
	Since, Until time.Time
	// Limit of one page, at most 1000; 0 means 100. A watch has no pages.
	Limit int
	// Counts asks also how many jobs there are of each state.
	Counts bool
	// Cursor is the Next of the page before.
	Cursor string
}

func (q JobQuery) values() url.Values {
	out := url.Values{}
	set(out, "service", q.Service)
	set(out, "cluster_id", q.ClusterID)
	set(out, "group_id", q.GroupID)
	for _, s := range q.States {
		out.Add("state", s)
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			out.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return out
}

// Jobs reads one page, the newest jobs first.
func (c *Client) Jobs(ctx context.Context, in JobQuery) (*v1.Jobs, error) {
	q := in.values()
	set(q, "cursor", in.Cursor)
	if in.Counts {
		q.Set("counts", "true")
	}
	if in.Limit > 0 {
		q.Set("limit", strconv.Itoa(in.Limit))
	}
	return get[v1.Jobs](ctx, c, jobsPath, q)
}

// Job reads one job.
func (c *Client) Job(ctx context.Context, id string) (*v1.Job, error) {
	return get[v1.Job](ctx, c, jobPath(id), nil)
}

// JobWatchOptions go with a watch of jobs.
type JobWatchOptions struct {
	// Since is the id of an event that was seen; what is not newer is not told.
	Since int64
	// Broken is called when the stream broke and is begun again; it may be nil.
	Broken func(err error)
}

// WatchJob calls fn with a job, at first as it is now and then after each change, as
// WatchReplicas does; an end of the job does not end it.
func (c *Client) WatchJob(ctx context.Context, id string, opts JobWatchOptions, fn func(job *v1.Job, id int64) error) error {
	return follow(ctx, c, watch[v1.Job]{what: "job " + id, path: jobPath(id), event: "job", since: opts.Since, broken: opts.Broken, fn: fn})
}

// WatchJobs calls fn with each job that matches, at first those that have not ended,
// then each one that comes or changes, as WatchReplicas does. It may call it twice with one.
func (c *Client) WatchJobs(ctx context.Context, q JobQuery, opts JobWatchOptions, fn func(job *v1.Job, id int64) error) error {
	return follow(ctx, c, watch[v1.Job]{what: "jobs", path: jobsPath, query: q.values(), event: "job", since: opts.Since, broken: opts.Broken, fn: fn})
}

// ExplainJob says why a job went where it went.
func (c *Client) ExplainJob(ctx context.Context, id string) (*v1.JobExplanation, error) {
	return get[v1.JobExplanation](ctx, c, jobPath(id)+"/explain", nil)
}

// CancelJob orders the end of a job. One that its cluster has to end goes on until
// that has done it.
func (c *Client) CancelJob(ctx context.Context, id string) (*v1.Job, error) {
	return c.jobAction(ctx, id, "cancel", nil)
}

// ReplayJob gives a parked job, or one that has ended otherwise than it should, its
// attempts again.
func (c *Client) ReplayJob(ctx context.Context, id string) (*v1.Job, error) {
	return c.jobAction(ctx, id, "replay", nil)
}

// ResolveJob says what a person found out of an uncertain job: v1.JobSubmitted or
// v1.JobVanished.
func (c *Client) ResolveJob(ctx context.Context, id, state string) (*v1.Job, error) {
	return c.jobAction(ctx, id, "resolve", v1.JobResolution{State: state})
}

func (c *Client) jobAction(ctx context.Context, id, action string, in any) (*v1.Job, error) {
	if in == nil {
		in = struct{}{}
	}
	return send[v1.Job](ctx, c, http.MethodPost, jobPath(id)+"/"+action, in)
}

func jobPath(id string) string { return jobsPath + "/" + url.PathEscape(id) }

package server_test

import (
	"cmp"
	"context"
	"fmt"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/runs"
	"github.com/oscarfed/oscarfed/store/record"
)

// fakeJobs is the part of a fake that is about jobs.
type fakeJobs struct {
	job       *jobs.Job
	list      []jobs.Job
	more      bool
	counts    map[jobs.State]int
	decisions []jobs.Explanation
	// token is that of service svc; empty for none.
	token string
	// watch stands for both watches.
	watch func(ctx context.Context, since int64, fn func(*jobs.Job) error) error
}

// ServiceCaller is no use case: it is what is asked before one.
func (f *fake) ServiceCaller(_ context.Context, service, token string) (identity.Caller, error) {
	if f.jobs.token == "" || service != "svc" || token != f.jobs.token {
		return identity.Caller{}, fmt.Errorf("%w: another token", identity.ErrUnauthenticated)
	}
	return identity.OfService("uid-of-svc"), nil
}

func (f *fake) answerJob() (*jobs.Job, error) {
	if f.err != nil {
		return nil, f.err
	}
	if f.jobs.job == nil {
		return exampleJob(), nil
	}
	return f.jobs.job, nil
}

// jobCases are the use cases of jobs.
type jobCases struct{ *fake }

func (f jobCases) Submit(ctx context.Context, c identity.Caller, req jobs.Request) (*jobs.Job, error) {
	f.called(ctx, "SubmitJob", c, req)
	return f.answerJob()
}

func (f jobCases) List(ctx context.Context, c identity.Caller, q jobs.Query) ([]jobs.Job, bool, error) {
	f.called(ctx, "Jobs", c, q)
	return f.jobs.list, f.jobs.more, f.err
}

func (f jobCases) Count(ctx context.Context, c identity.Caller, q jobs.Query) (map[jobs.State]int, error) {
	f.called(ctx, "CountJobs", c, q)
	return f.jobs.counts, f.err
}

func (f jobCases) Get(ctx context.Context, c identity.Caller, id string) (*jobs.Job, error) {
	f.called(ctx, "Job "+id, c, nil)
	return f.answerJob()
}

func (f jobCases) Watch(ctx context.Context, c identity.Caller, id string, since int64, fn func(*jobs.Job) error) error {
	f.called(ctx, "WatchJob "+id, c, since)
	return f.jobs.watch(ctx, since, fn)
}

func (f jobCases) WatchAll(ctx context.Context, c identity.Caller, q jobs.Query, since int64, fn func(j *jobs.Job, seen int64) error) error {
	f.called(ctx, "WatchJobs", c, q)
	return f.jobs.watch(ctx, since, func(j *jobs.Job) error { return fn(j, j.StreamRevision) })
}

func (f jobCases) Explain(ctx context.Context, c identity.Caller, id string) (*jobs.Job, []jobs.Explanation, error) {
	f.called(ctx, "ExplainJob "+id, c, nil)
	j, err := f.answerJob()
	return j, f.jobs.decisions, err
}

func (f jobCases) Cancel(ctx context.Context, c identity.Caller, o jobs.Order) (*jobs.Job, error) {
	f.called(ctx, "CancelJob "+o.Job, c, o.RequestID)
	return f.answerJob()
}

func (f jobCases) Replay(ctx context.Context, c identity.Caller, o jobs.Order) (*jobs.Job, error) {
	f.called(ctx, "ReplayJob "+o.Job, c, o.Repeat)
	return f.answerJob()
}

func (f jobCases) Resolve(ctx context.Context, c identity.Caller, o jobs.Order, as jobs.State) (*jobs.Job, error) {
	f.called(ctx, "ResolveJob "+o.Job, c, as)
	return f.answerJob()
}

// exampleJob runs on b at its second attempt.
func exampleJob() *jobs.Job {
	started := moment("2026-11-20T13:04:08.000Z")
	return &jobs.Job{
		ID: jobID, Position: offeredAt, Federation: "0199c3a2-5f0e-7c31-9a44-3b1f0d8e6a21", GroupID: "grayifyr0",
		Owner: "ann", ClusterID: "oscar-cluster-a", Service: "grayifyr0", By: "bob", Size: 17, State: record.JobRunning,
		Attempt: 2, Place: &record.Place{ClusterID: "oscar-cluster-b", ServiceName: "grayifyr1", UID: "u", Name: "grayifyr1-0199d0a1-7c00-7000-8000-000000000001-2"},
		Attempts: []record.Attempt{{
			Attempt: 1, ClusterID: "oscar-cluster-c", Place: "oscar-cluster-c/grayifyr2", State: record.JobRefused, Reason: record.JobOscarRefused, Status: 500, Message: "no room",
			EndedAt: record.At(moment("2026-11-20T13:04:06.000Z")),
		}},
		Cancel: "bob", Revision: 4711, StreamRevision: 4713, RequestID: "r1",
		AcceptedAt: moment("2026-11-20T13:04:05.120Z"), ChangedAt: moment("2026-11-20T13:04:08.500Z"), StartedAt: &started,
	}
}

// contractJob is exampleJob as the administrator gets it.
const contractJob = `{"id":"0199d0a1-7c00-7000-8000-000000000001","federation":"0199c3a2-5f0e-7c31-9a44-3b1f0d8e6a21","group_id":"grayifyr0",` +
	`"owner":"ann","cluster_id":"oscar-cluster-a","service_name":"grayifyr0","by":"bob","size":17,"state":"running","reason":"","message":"",` +
	`"attempt":2,"place":{"cluster_id":"oscar-cluster-b","service_name":"grayifyr1","job_name":"grayifyr1-0199d0a1-7c00-7000-8000-000000000001-2"},` +
	`"attempts":[{"attempt":1,"place":"oscar-cluster-c/grayifyr2","state":"refused","reason":"OscarRefused","status":500,"message":"no room",` +
	`"ended_at":"2026-11-20T13:04:06.000Z"}],"cancelled":true,"cancelled_by":"bob","revision":4711,"request_id":"r1",` +
	`"accepted_at":"2026-11-20T13:04:05.120Z","changed_at":"2026-11-20T13:04:08.500Z","started_at":"2026-11-20T13:04:08.000Z"}`

// exampleDecision took the second of two members.
func exampleDecision() jobs.Explanation {
	score := 12.5
	return jobs.Explanation{
		Attempt: 2, At: moment("2026-11-20T13:04:06.100Z"),
		Snapshot: delegation.Snapshot{Policy: "load-based", Candidates: []delegation.Candidate{}},
		Decision: delegation.Decision{
			Policy: "load-based", Chosen: "oscar-cluster-b/grayifyr1", Order: []string{"oscar-cluster-b/grayifyr1"},
			Verdicts: []delegation.Verdict{
				{Place: "oscar-cluster-a/grayifyr0", Why: delegation.WhyNoRoom, Message: "no node has room"},
				{Place: "oscar-cluster-b/grayifyr1", Why: delegation.WhyChosen, Message: "the most free CPU", Score: &score},
			},
		},
	}
}

func (f *fake) Invoke(ctx context.Context, c identity.Caller, req runs.Request) (*runs.Answer, error) {
	f.called(ctx, "Invoke", c, req.Service)
	if f.err != nil {
		return nil, f.err
	}
	return f.run(req)
}

func (f *fake) Buckets(ctx context.Context, c identity.Caller, cluster string) ([]v1.Bucket, []string, error) {
	f.called(ctx, "Buckets", c, cluster)
	return f.buckets, f.missing, f.err
}

func (f *fake) Volumes(ctx context.Context, c identity.Caller, cluster string) ([]v1.Volume, []string, error) {
	f.called(ctx, "Volumes", c, cluster)
	return []v1.Volume{}, f.missing, f.err
}

func (f *fake) Forward(ctx context.Context, c identity.Caller, in runs.ForwardRequest) (*runs.ForwardAnswer, error) {
	f.called(ctx, "Forward", c, in)
	if f.err != nil {
		return nil, f.err
	}
	return cmp.Or(f.forwarded, &runs.ForwardAnswer{ClusterID: "oscar-cluster-a", Status: 200, MediaType: "application/json; charset=utf-8", Body: []byte("{}")}), nil
}

func (f *fake) Restart(ctx context.Context, c identity.Caller, in runs.LogTarget) ([]string, error) {
	f.called(ctx, "Restart", c, in)
	return f.missing, f.err
}

func (f *fake) JobLogs(ctx context.Context, c identity.Caller, in runs.LogTarget, page string) (*runs.JobList, error) {
	f.called(ctx, "JobLogs "+page, c, in)
	return f.jobList, f.err
}

func (f *fake) JobLog(ctx context.Context, c identity.Caller, in runs.LogTarget, job string, timestamps bool) (*runs.Answer, error) {
	f.called(ctx, fmt.Sprintf("JobLog %s %t", job, timestamps), c, in)
	if f.err != nil {
		return nil, f.err
	}
	return f.run(runs.Request{})
}

func (f *fake) DeleteJobLogs(ctx context.Context, c identity.Caller, in runs.LogTarget, all bool) ([]string, error) {
	f.called(ctx, fmt.Sprintf("DeleteJobLogs %t", all), c, in)
	return f.missing, f.err
}

func (f *fake) DeleteJobLog(ctx context.Context, c identity.Caller, in runs.LogTarget, job string) ([]string, error) {
	f.called(ctx, "DeleteJobLog "+job, c, in)
	return f.missing, f.err
}

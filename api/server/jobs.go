package server

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
)

// Jobs are the use cases of jobs.
type Jobs interface {
	Submit(ctx context.Context, caller identity.Caller, req jobs.Request) (*jobs.Job, error)
	List(ctx context.Context, caller identity.Caller, q jobs.Query) (jobs []jobs.Job, more bool, err error)
	Count(ctx context.Context, caller identity.Caller, q jobs.Query) (map[jobs.State]int, error)
	Get(ctx context.Context, caller identity.Caller, id string) (*jobs.Job, error)
	// Watch calls fn with a job when its store revision is not since, and after each
	// change, until ctx ends, fn fails, or the job is gone.
	Watch(ctx context.Context, caller identity.Caller, id string, since int64, fn func(*jobs.Job) error) error
	// WatchAll calls fn with every job that has not ended, or for a since above 0 with
	// those that have changed after it, and then with each one that comes or changes.
	WatchAll(ctx context.Context, caller identity.Caller, q jobs.Query, since int64, fn func(j *jobs.Job, seen int64) error) error
	Explain(ctx context.Context, caller identity.Caller, id string) (*jobs.Job, []jobs.Explanation, error)
	Cancel(ctx context.Context, caller identity.Caller, o jobs.Order) (*jobs.Job, error)
	Replay(ctx context.Context, caller identity.Caller, o jobs.Order) (*jobs.Job, error)
	Resolve(ctx context.Context, caller identity.Caller, o jobs.Order, as jobs.State) (*jobs.Job, error)
}

const (
	jobsRoute = "/system/jobs"
	jobRoute  = jobsRoute + "/{job}"
	// jobIDHeader names the job that a request has made. OSCAR has no such header.
	jobIDHeader = "X-Job-ID"
)

func jobPath(id string) string { return jobsRoute + "/" + url.PathEscape(id) }

// submitJob answers POST /job/{service}: 201 without a body once the job is stored, as
// OSCAR does once it has made a Job. The body is the event, whatever its media type.
func (s *Server) submitJob(w http.ResponseWriter, r *http.Request) error {
	st, p := respond.StateOf(r), paramsOf(r)
	st.Noun = "job"
	req := jobs.Request{
		Service: pathParam(r, "service"), ClusterID: p.query.Get("cluster_id"), IdempotencyKey: p.idempotencyKey(), RequestID: st.WriteID,
	}
	if err := p.err(); err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, oscar.MaxEventBytes)
	var err error
	if req.Event, err = readBody(r); err != nil {
		return err
	}
	job, err := s.cp.Jobs.Submit(r.Context(), st.Caller, req)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Location", jobPath(job.ID))
	h.Set(jobIDHeader, job.ID)
	replayed(h, job.Replayed)
	w.WriteHeader(http.StatusCreated)
	return nil
}

// listJobs answers GET /system/jobs: one page, the newest first; with ?watch=true a
// stream of events.
func (s *Server) listJobs(w http.ResponseWriter, r *http.Request) error {
	caller, p := respond.StateOf(r).Caller, paramsOf(r)
	q := p.jobQuery()
	watch := p.yes("watch") && r.Method == http.MethodGet
	counts := p.yes("counts")
	if watch && (p.query.Has("limit") || p.query.Has("cursor") || counts) {
		p.violate("?watch", oscar.RuleOneOf, "true", "a watch has no pages and no counts; leave limit, cursor and counts out")
	}
	if err := p.err(); err != nil {
		return err
	}
	if watch {
		return s.watchJobs(w, r, q)
	}
	list, more, err := s.cp.Jobs.List(r.Context(), caller, q)
	if err != nil {
		return err
	}
	out := v1.Jobs{Jobs: make([]v1.Job, len(list))}
	for i := range list {
		out.Jobs[i] = list[i].Wire(caller)
	}
	if more {
		out.Next = cursorOf(list[len(list)-1].Position)
	}
	if counts {
		states, err := s.cp.Jobs.Count(r.Context(), caller, q)
		if err != nil {
			return err
		}
		out.Counts = map[string]int{}
		for state, n := range states {
			out.Counts[string(state)] = n
		}
	}
	return respond.JSON(w, http.StatusOK, out)
}

// jobQuery reads what GET /system/jobs is asked for.
func (p *params) jobQuery() jobs.Query {
	q := jobs.Query{
		Federation: p.query.Get("group_id"), Service: p.query.Get("service"), ClusterID: p.query.Get("cluster_id"),
	}
	for _, state := range p.anyOf("state", v1.JobStates()) {
		q.States = append(q.States, jobs.State(state))
	}
	q.Since, q.Until = p.time("since"), p.time("until")
	if !q.Until.IsZero() && !q.Until.After(q.Since) {
		p.violate("?until", oscar.RuleType, p.query.Get("until"), "it is not after since; no job is accepted in between")
	}
	q.Limit = p.limit()
	if cursor := p.query.Get("cursor"); cursor != "" {
		var ok bool
		if q.Before, ok = ofCursor(cursor); !ok {
			p.violate("?cursor", oscar.RuleType, nil, "it is no cursor of this list; leave it out to begin with the newest")
		}
	}
	return q
}

// cursorMark tells cursors of this list from others, and from those of another form.
const cursorMark = "j1."

func cursorOf(p jobs.Position) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorMark + p))
}

func ofCursor(cursor string) (p jobs.Position, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(text) <= len(cursorMark) || len(text) > 100 || string(text[:len(cursorMark)]) != cursorMark {
		return "", false
	}
	p = jobs.Position(text[len(cursorMark):])
	return p, p.Valid()
}

func (s *Server) watchJobs(w http.ResponseWriter, r *http.Request, q jobs.Query) error {
	caller := respond.StateOf(r).Caller
	since, err := lastEventID(r)
	if err != nil {
		return err
	}
	return s.watch(w, r, stream{
		visible: func(ctx context.Context) error {
			one := q
			one.Limit = 1
			_, _, err := s.cp.Jobs.List(ctx, caller, one)
			return err
		},
		follow: func(ctx context.Context, send func(event) error) error {
			return s.cp.Jobs.WatchAll(ctx, caller, q, since, func(j *jobs.Job, seen int64) error {
				return send(event{eventJob, seen, j.Wire(caller)})
			})
		},
	})
}

// getJob answers GET /system/jobs/{job}; with ?watch=true with a stream of events.
func (s *Server) getJob(w http.ResponseWriter, r *http.Request) error {
	caller, id, p := respond.StateOf(r).Caller, pathParam(r, "job"), paramsOf(r)
	watching := p.yes("watch") && r.Method == http.MethodGet
	if err := p.err(); err != nil {
		return err
	}
	if watching {
		return s.watchJob(w, r, id)
	}
	job, err := s.cp.Jobs.Get(r.Context(), caller, id)
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, job.Wire(caller))
}

func (s *Server) watchJob(w http.ResponseWriter, r *http.Request, id string) error {
	caller := respond.StateOf(r).Caller
	since, err := lastEventID(r)
	if err != nil {
		return err
	}
	return s.watch(w, r, stream{
		visible: func(ctx context.Context) error {
			_, err := s.cp.Jobs.Get(ctx, caller, id)
			return err
		},
		follow: func(ctx context.Context, send func(event) error) error {
			return s.cp.Jobs.Watch(ctx, caller, id, since, func(j *jobs.Job) error {
				return send(event{eventJob, j.StreamRevision, j.Wire(caller)})
			})
		},
	})
}

// explainJob answers GET /system/jobs/{job}/explain.
func (s *Server) explainJob(w http.ResponseWriter, r *http.Request) error {
	caller := respond.StateOf(r).Caller
	job, decisions, err := s.cp.Jobs.Explain(r.Context(), caller, pathParam(r, "job"))
	if err != nil {
		return err
	}
	out := v1.JobExplanation{Job: job.Wire(caller), Decisions: make([]v1.JobDecision, len(decisions))}
	for i := range decisions {
		if out.Decisions[i], err = decisions[i].Wire(); err != nil {
			return err
		}
	}
	return respond.JSON(w, http.StatusOK, out)
}

// cancelJob answers POST /system/jobs/{job}/cancel: 200 when the job has ended, 202
// when its cluster has to end it first.
func (s *Server) cancelJob(w http.ResponseWriter, r *http.Request) error {
	return s.orderJob(w, r, s.cp.Jobs.Cancel, func(j *jobs.Job) int {
		if j.State.Ended() {
			return http.StatusOK
		}
		return http.StatusAccepted
	})
}

// replayJob answers POST /system/jobs/{job}/replay.
func (s *Server) replayJob(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	repeat := p.repeat(nil)
	if err := p.err(); err != nil {
		return err
	}
	return s.orderJob(w, r, func(ctx context.Context, caller identity.Caller, o jobs.Order) (*jobs.Job, error) {
		o.Repeat = repeat
		return s.cp.Jobs.Replay(ctx, caller, o)
	}, nil)
}

// resolveJob answers POST /system/jobs/{job}/resolve.
func (s *Server) resolveJob(w http.ResponseWriter, r *http.Request) error {
	var in v1.JobResolution
	if _, err := readJSON(r, "resolution", &in); err != nil {
		return err
	}
	if in.State != v1.JobSubmitted && in.State != v1.JobVanished {
		return fault.Invalid(oscar.Violation{
			Path: "state", Rule: oscar.RuleOneOf, Value: respond.Cut(in.State, 40),
			Message: "say what is so: submitted, if its cluster has the Job; vanished, if it neither has it nor will",
		})
	}
	return s.orderJob(w, r, func(ctx context.Context, caller identity.Caller, o jobs.Order) (*jobs.Job, error) {
		return s.cp.Jobs.Resolve(ctx, caller, o, jobs.State(in.State))
	}, nil)
}

// orderJob gives one order about a job. What is unknown of it can be looked up at the
// job; status nil is 200.
func (s *Server) orderJob(w http.ResponseWriter, r *http.Request,
	order func(context.Context, identity.Caller, jobs.Order) (*jobs.Job, error), status func(*jobs.Job) int,
) error {

	st, id := respond.StateOf(r), pathParam(r, "job")
	st.Location = jobPath(id)
	job, err := order(r.Context(), st.Caller, jobs.Order{Job: id, RequestID: st.WriteID})
	if err != nil {
		return err
	}
	code := http.StatusOK
	if status != nil {
		code = status(job)
	}
	replayed(w.Header(), job.Replayed)
	return respond.JSON(w, code, job.Wire(st.Caller))
}

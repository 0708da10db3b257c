package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// Order is a word of a person about one job.
type Order struct {
	Job       string
	RequestID string
}

// CancelJob orders the end of a job. One that nobody has claimed is cancelled at once;
// for any other its syncer is asked, and the job ends as it then reports: it may have
// succeeded meanwhile. To cancel what is cancelled is no error.
func (c *Controller) CancelJob(ctx context.Context, caller identity.Caller, o Order) (*Job, error) {
	return c.order(ctx, caller, o, record.ActionCancelJob, func(s jobSituation) (jobDecision, error) { return cancelJob(s, caller.Subject) })
}

// ReplayJob queues a job that is parked, or has failed, again, with all its attempts anew: one
// that has failed may have run, and runs again. One that waits since
// a restore of the store, because a member that is away might have it, is released:
// should that member have it, it runs twice.
func (c *Controller) ReplayJob(ctx context.Context, caller identity.Caller, o Order) (*Job, error) {
	return c.order(ctx, caller, o, record.ActionReplayJob, replayJob)
}

// ResolveJob says what became of an attempt that nobody can ask about: it is with its
// OSCAR (JobSubmitted), or it is not (JobVanished), which ends the job.
func (c *Controller) ResolveJob(ctx context.Context, caller identity.Caller, o Order, as record.JobState) (*Job, error) {
	if as != record.JobSubmitted && as != record.JobVanished {
		return nil, &fault.Error{Code: fault.CodeInvalid, Message: fmt.Sprintf("a job is resolved as %s or as %s", record.JobSubmitted, record.JobVanished)}
	}
	return c.order(ctx, caller, o, record.ActionResolveJob, func(s jobSituation) (jobDecision, error) { return resolveJob(s, as) })
}

// order takes the step that a person orders, from the newest state, until it is taken
// or refused.
func (c *Controller) order(ctx context.Context, caller identity.Caller, o Order, action record.Action, decide func(jobSituation) (jobDecision, error)) (*Job, error) {
	o.RequestID = request.RequestID(o.RequestID)
	tries := gate.NewRetries()
	for {
		if err := c.gate.Fresh(ctx); err != nil {
			return nil, err
		}
		var step *jobStep
		var err error
		c.state.Read(func(v *view.View) { step, err = orderStep(v, caller, o.Job, c.cfg.Now(), decide) })
		if err != nil {
			return nil, err
		}
		if step == nil {
			return c.Job(ctx, caller, o.Job)
		}
		step.audit = &record.Audit{
			By: caller.Subject, Action: action, Outcome: record.OutcomeDone, Federation: step.was.Federation, Owner: step.was.Owner,
			GroupID: step.was.GroupID, RequestID: o.RequestID, Detail: fmt.Sprintf("job %s: %s, then %s", o.Job, step.was.State, step.next.State),
		}
		done, err := c.commitJobs(ctx, []*jobStep{step})
		switch {
		case err != nil && !errors.Is(err, gate.ErrFence):
			return nil, fault.Crossing(err)
		case len(done) == 1:
			var shown *Job
			c.state.Read(func(v *view.View) { shown = jobView(v, o.Job) })
			if shown == nil {
				return nil, fault.NotFound(fmt.Sprintf("there is no job %q", o.Job))
			}
			return shown, nil
		}
		if err := tries.Next(ctx, err); err != nil {
			return nil, err
		}
	}
}

// orderStep gives no step and no error for what is so already.
func orderStep(v *view.View, caller identity.Caller, id string, now time.Time, decide func(jobSituation) (jobDecision, error)) (*jobStep, error) {
	j, ok := v.Jobs.All[id]
	if !ok || !mayReadJob(v, caller, j.Rec) {
		return nil, fault.NotFound(fmt.Sprintf("there is no job %q", id))
	}
	if !caller.MayChange(j.Rec.Owner) && (j.Rec.By == "" || caller.Subject != j.Rec.By) {
		return nil, &fault.Error{Code: fault.CodeForbidden, Message: fmt.Sprintf("job %q is for its sender and for the owner of its service", id)}
	}
	if word := record.Strange(j.Rec); word != "" {
		return nil, fault.NewerVersion(fmt.Sprintf("job %q", id), word)
	}
	sit, report := situationOfJob(v, j.Rec, now)
	d, err := decide(sit)
	if err != nil || d.name == "" {
		return nil, err
	}
	return stepOf(v, j, report, d), nil
}

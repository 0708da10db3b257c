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

// Order names the job of a cancel, replay or resolve request.
type Order struct {
	Job       string
	RequestID string
	// Repeat is how a replay is told again.
	Repeat request.Repeat
}

// Cancel cancels a job. A job that no syncer has claimed is cancelled at once; otherwise the
// assignment asks its syncer, and the job ends as the syncer then reports: it may have
// succeeded meanwhile. Cancelling a cancelled job is no error.
func (c *Controller) Cancel(ctx context.Context, caller identity.Caller, o Order) (*Job, error) {
	return c.order(ctx, caller, o, record.ActionCancelJob, func(_ *view.View, s situation) (decision, error) {
		return cancel(s, caller.Subject)
	})
}

// Replay queues a parked or failed job again, and counts its tries from zero. A failed job may
// have run, and runs again. A job that is held since a restore of the store, because an absent
// member might have it, is released: if that member has it, it runs twice. As a new job, it is for
// who may use the service now, and counts in the limits of jobs in flight.
func (c *Controller) Replay(ctx context.Context, caller identity.Caller, o Order) (*Job, error) {
	return c.order(ctx, caller, o, record.ActionReplayJob, func(v *view.View, s situation) (decision, error) {
		d, err := replay(s)
		if err == nil {
			err = c.mayRun(v, caller, &s.job)
		}
		return d, err
	})
}

// mayRun refuses another run of a job to a caller who may not use its service any more, and one
// that would exceed a limit of jobs in flight.
func (c *Controller) mayRun(v *view.View, caller identity.Caller, j *record.Job) error {
	f := v.Federations.Get(j.Federation).Rec
	switch {
	case f == nil || !caller.MayRead(f.Owner, f.Visibility, f.AllowedUsers):
		return &fault.Error{Code: fault.CodeForbidden, Message: fmt.Sprintf("the service of job %q is not for its sender any more", j.Job)}
	case !j.State.Ended(): // it is counted
		return nil
	}
	return c.refusedFor(j, loadOf(v, j))
}

// Resolve records the outcome of an attempt as a person decides it: its OSCAR has it
// (JobSubmitted), or has not (JobVanished), which ends the job.
func (c *Controller) Resolve(ctx context.Context, caller identity.Caller, o Order, as record.JobState) (*Job, error) {
	if as != record.JobSubmitted && as != record.JobVanished {
		return nil, &fault.Error{Code: fault.CodeInvalid, Message: fmt.Sprintf("a job is resolved as %s or as %s", record.JobSubmitted, record.JobVanished)}
	}
	return c.order(ctx, caller, o, record.ActionResolveJob, func(_ *view.View, s situation) (decision, error) { return resolve(s, as) })
}

// orderDecider decides what an order does to a job.
type orderDecider func(*view.View, situation) (decision, error)

// order writes the step of a person's request, retried from the newest state until it is
// written or refused. The same request again changes nothing.
func (c *Controller) order(ctx context.Context, caller identity.Caller, o Order, action record.Action, decide orderDecider) (*Job, error) {
	o.RequestID = request.ID(o.RequestID)
	q, tries := request.ClaimOf(caller, o.Repeat, o.RequestID), gate.NewRetries()
	for {
		if err := c.gate.Fresh(ctx); err != nil {
			return nil, err
		}
		r, err := c.requests.Repeated(ctx, q)
		if err != nil {
			return nil, fault.Crossing(err)
		}
		if r != nil {
			j, err := c.Get(ctx, caller, o.Job)
			if err == nil {
				j.Replayed = true
			}
			return j, err
		}
		var p *step
		c.state.Read(func(v *view.View) { p, err = orderStep(v, caller, o.Job, c.cfg.Now(), decide) })
		if errors.Is(err, errThawed) { // the reconciler is about to take it back
			if err := tries.Next(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if p == nil {
			return c.Get(ctx, caller, o.Job)
		}
		p.claim = q
		p.audit = &record.Audit{
			By: caller.Subject, Action: action, Outcome: record.OutcomeDone, Federation: p.was.Federation, Owner: p.was.Owner,
			GroupID: p.was.GroupID, RequestID: o.RequestID, Detail: fmt.Sprintf("job %s: %s, then %s", o.Job, p.was.State, p.next.State),
		}
		done, err := c.commitJobs(ctx, []*step{p})
		switch {
		case err != nil && !errors.Is(err, gate.ErrFence) && !errors.Is(err, request.ErrAccepted):
			return nil, fault.Crossing(err)
		case len(done) == 1:
			var shown *Job
			c.state.Read(func(v *view.View) { shown = viewOf(v, o.Job) })
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

// orderStep returns no step and no error when nothing is to change.
func orderStep(v *view.View, caller identity.Caller, id string, now time.Time, decide orderDecider) (*step, error) {
	j, ok := v.Jobs.ByID.Lookup(id)
	if !ok || !mayReadJob(v, caller, v.Jobs.ByID.Head(id)) {
		return nil, fault.NotFound(fmt.Sprintf("there is no job %q", id))
	}
	if !caller.MayChange(j.Rec.Owner) && (j.Rec.By == "" || caller.Subject != j.Rec.By) {
		return nil, &fault.Error{Code: fault.CodeForbidden, Message: fmt.Sprintf("job %q is for its sender and for the owner of its service", id)}
	}
	if word := record.Strange(j.Rec); word != "" {
		return nil, fault.NewerVersion(fmt.Sprintf("job %q", id), word)
	}
	sit, report := situationOfJob(v, j.Rec, now)
	d, err := decide(v, sit)
	if err != nil || d.name == "" {
		return nil, err
	}
	return stepOf(v, j, report, d), nil
}

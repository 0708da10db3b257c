package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// Trials of jobs whose place changes while they wait, or that somebody takes from it.

// unanswering is an OSCAR that makes the Job of an event, and does not say so.
type unanswering struct {
	syncer.OSCAR
	event string
}

// Submit implements syncer.OSCAR.
func (o unanswering) Submit(ctx context.Context, job manager.Submission, timeout time.Duration) error {
	err := o.OSCAR.Submit(ctx, job, timeout)
	if string(job.Event) != o.event {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(timeout):
	}
	return &manager.APIError{Op: manager.OpSubmit, Service: job.Service, Err: context.DeadlineExceeded}
}

// deletedUnanswered has somebody delete the Job after a list has shown it, while OSCAR is asked for it. Another job runs
// there, so that there are lists.
func (t *trial) deletedUnanswered() error {
	defer t.only()()
	event := "the event of " + t.name
	t.cluster.Kill()
	t.cluster.Start(func(c *syncer.Config) { c.OSCAR = unanswering{c.OSCAR, event} })
	<-time.After(sessionOver)
	t.sim.HoldJob(event)
	beside := t.named("-beside")
	other, stands, err := beside.standsAt()
	id, sent := t.submit()
	name, made := made(t.sim, jobService, event)
	<-time.After(2 * trialSoon / 5) // it is listed by then, and not answered for
	told := t.told(id)
	err = errors.Join(err, sent, made, t.sim.DeleteJob(jobService, name), t.becomes(id, record.JobVanished), t.started(1))
	if told != record.JobSubmitting {
		err = errors.Join(err, fmt.Errorf("it was deleted when it was reported as %q", told))
	}
	t.cluster.Kill()
	t.cluster.Start()
	return errors.Join(err, t.sim.SetJobStatus(jobService, stands, oscarsim.JobSucceeded), t.becomes(other, record.JobSucceeded))
}

// takenOver makes a service, alone in its federation, a member of another one. One of its jobs runs, and one rests since
// OSCAR has refused it for the last time but one.
func (t *trial) takenOver() error {
	lone := t.named("-lone")
	err := t.withoutLast()
	_, made := t.api.CreateService(t.ctx, t.player.users.definition(lone.name, t.cluster.ID, Free{Topology: "none"}), client.CreateOptions{Wait: trialLate})
	running, sent := lone.send("runs")
	name, kept := keep(t.sim, lone.name, "runs")
	err = errors.Join(err, made, sent, kept, t.becomes(running, record.JobRunning), t.refuseJobs(oscarsim.FaultDeny))
	resting, sent := lone.send("the event of " + lone.name)
	err = errors.Join(err, sent, awaitEach(shortestRun/10, "it rests for the last time", func() bool {
		j := t.player.w.Job(resting)
		return j != nil && j.Tries == 4 && j.State == record.JobQueued
	}), t.refuseJobs(""))
	if err != nil {
		return err
	}
	was := t.player.w.Job(resting)
	_, err = t.api.AddReplicas(t.ctx, t.name, lone.added(), client.ChangeOptions{Async: true})
	f, found := t.federation()
	if err = errors.Join(err, found); err != nil {
		return err
	}
	err = awaitEach(shortestRun/100, "both jobs follow", func() bool {
		return t.player.w.Job(running).Federation == f.UID && t.player.w.Job(resting).Federation == f.UID
	})
	now := t.player.w.Job(resting)
	if now.State != record.JobQueued || now.NotBefore == nil || now.NotBefore.Sub(now.ChangedAt.Time) != was.NotBefore.Sub(was.ChangedAt.Time) {
		err = errors.Join(err, fmt.Errorf("it was to rest from %v until %v, and is %s from %v until %v", was.ChangedAt, was.NotBefore, now.State, now.ChangedAt, now.NotBefore))
	}
	return errors.Join(err, t.sim.SetJobStatus(lone.name, name, oscarsim.JobSucceeded), t.becomes(running, record.JobSucceeded), lone.runs(resting))
}

// stranded removes the member that a job came in at, in a star, while nobody has room for the job.
func (t *trial) stranded() error {
	err := t.create(trialLate, func(f *oscar.Federation) { f.Topology = oscar.TopologyStar })
	mend := t.full()
	sent, submitted := t.api.SubmitJob(t.ctx, t.name, []byte("the event of "+t.name), client.JobOptions{ClusterID: t.cluster.ID})
	if err = errors.Join(err, submitted); err != nil {
		return err
	}
	err = errors.Join(t.becomes(sent.ID, record.JobQueued), t.leave(), t.becomes(sent.ID, record.JobParked))
	mend()
	<-time.After(trialSoon)
	err = errors.Join(err, t.becomes(sent.ID, record.JobParked), t.started(0))
	_, added := t.api.AddReplicas(t.ctx, t.name, t.added(), client.ChangeOptions{Wait: trialLate})
	_, replayed := t.api.ReplayJob(t.ctx, sent.ID)
	return errors.Join(err, added, replayed, t.runs(sent.ID))
}

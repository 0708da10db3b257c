package history

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
)

// Trials of how a job ends that runs at its OSCAR.

// standsAt submits a job, and gives the name of its Job, which is made to run for ever.
func (t *trial) standsAt() (id, name string, err error) {
	if id, err = t.submit(); err != nil {
		return "", "", err
	}
	name, err = keep(t.sim, jobService, "the event of "+t.name)
	return id, name, errors.Join(err, t.becomes(id, record.JobRunning))
}

// keep waits until OSCAR has the Job of an event, and makes it run for ever. It looks so often that
// the Job has not ended by itself.
func keep(sim *oscarsim.Sim, service, event string) (name string, err error) {
	if name, err = made(sim, service, event); err != nil {
		return "", err
	}
	return name, sim.SetJobStatus(service, name, oscarsim.JobRunning)
}

// made waits until OSCAR has the Job of an event.
func made(sim *oscarsim.Sim, service, event string) (name string, err error) {
	err = awaitEach(shortestRun/4, "OSCAR has it", func() bool { name = jobOf(sim, service, event); return name != "" })
	return name, err
}

// waits waits until the Job of an event is reported to wait at the OSCAR of the trial's cluster, which holds it from before
// it is made.
func (t *trial) waits(id, service, event string) (name string, err error) {
	name, err = made(t.sim, service, event)
	return name, errors.Join(err, t.whenTold(id, record.JobSubmitted))
}

func (t *trial) jobDeleted() error {
	defer t.only()()
	id, name, err := t.standsAt()
	if err == nil {
		err = t.sim.DeleteJob(jobService, name)
	}
	err = errors.Join(err, t.becomes(id, record.JobVanished), t.started(1))
	_, cancelled := t.api.CancelJob(t.ctx, id)
	return errors.Join(err, refused(cancelled, v1.CodeFailedPrecondition))
}

// cancelAgain has OSCAR answer the deletion of a Job, and do nothing, for a while.
func (t *trial) cancelAgain() error {
	defer t.only()()
	id, _, err := t.standsAt()
	if err == nil {
		err = t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpLogsDelete, Fault: oscarsim.Fault500})
	}
	_, cancelled := t.api.CancelJob(t.ctx, id)
	_, again := t.api.CancelJob(t.ctx, id)
	<-time.After(trialSoon)
	t.sim.ClearFaults()
	err = errors.Join(err, cancelled, again, t.becomes(id, record.JobCancelled))
	_, twice := t.api.CancelJob(t.ctx, id)
	return errors.Join(err, twice)
}

// cancelSuspended cancels a job that no list has shown running.
func (t *trial) cancelSuspended() error {
	defer t.only()()
	if err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpLogs, Fault: oscarsim.Fault500}); err != nil {
		return err
	}
	id, err := t.submit()
	err = errors.Join(err, t.whenTold(id, record.JobSubmitted))
	name := t.atOSCAR()
	err = errors.Join(err, t.sim.SetJobStatus(jobService, name, oscarsim.JobSuspended))
	t.sim.ClearFaults()
	<-time.After(trialSoon)
	_, cancelled := t.api.CancelJob(t.ctx, id)
	err = errors.Join(err, cancelled, t.becomes(id, record.JobCancelled))
	if t.atOSCAR() != "" {
		err = errors.Join(err, errors.New("its Job stands"))
	}
	return err
}

func (t *trial) cancelPaused() error {
	defer t.only()()
	id, _, err := t.standsAt()
	err = errors.Join(err, t.setCluster(record.ClusterPaused))
	_, cancelled := t.api.CancelJob(t.ctx, id)
	<-time.After(trialSoon)
	if state := t.state(id); state != record.JobRunning {
		err = errors.Join(err, fmt.Errorf("it is %s on a cluster that is paused", state))
	}
	return errors.Join(err, cancelled, t.setCluster(record.ClusterActive), t.becomes(id, record.JobCancelled))
}

// deleteWithJobs deletes a service with its jobs, one of which runs.
func (t *trial) deleteWithJobs() error {
	if _, err := t.api.CreateService(t.ctx, t.alone(t.name, "first"), client.CreateOptions{Wait: trialLate}); err != nil {
		return err
	}
	sim := t.player.w.Cluster(t.player.users.clusters[0]).Sim
	id, err := t.send("one")
	if err != nil {
		return err
	}
	_, err = keep(sim, t.name, "one")
	err = errors.Join(err, t.becomes(id, record.JobRunning))
	_, waits := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{})
	<-time.After(trialSoon)
	if state := t.state(id); state != record.JobRunning {
		err = errors.Join(err, fmt.Errorf("it is %s, and its service is to wait for it", state))
	}
	_, hurries := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{Jobs: "cancel"})
	return errors.Join(err, waits, hurries, t.becomes(id, record.JobCancelled))
}

func (t *trial) cancelQueued() error {
	defer t.full()()
	id, err := t.submit()
	if err != nil {
		return err
	}
	_, err = t.api.CancelJob(t.ctx, id)
	if state := t.state(id); state != record.JobCancelled {
		err = errors.Join(err, fmt.Errorf("it is %s", state))
	}
	return errors.Join(err, t.started(0))
}

// giveUp gives a job up whose cluster is away.
func (t *trial) giveUp() error {
	defer t.only()()
	id, name, err := t.standsAt()
	t.cluster.Kill()
	defer t.cluster.Start()
	<-time.After(sessionOver)
	_, resolved := t.api.ResolveJob(t.ctx, id, string(record.JobVanished))
	return errors.Join(err, resolved, t.becomes(id, record.JobVanished), t.sim.SetJobStatus(jobService, name, oscarsim.JobSucceeded))
}

func (t *trial) replayFailed() error {
	defer t.only()()
	id, name, err := t.standsAt()
	if err != nil {
		return err
	}
	if err := errors.Join(t.sim.SetJobStatus(jobService, name, oscarsim.JobFailed), t.becomes(id, record.JobFailed)); err != nil {
		return err
	}
	_, err = t.api.ReplayJob(t.ctx, id)
	err = errors.Join(err, t.await("it has run again", func() bool { return t.state(id).Ended() }), t.started(2))
	_, resolved := t.api.ResolveJob(t.ctx, id, string(record.JobVanished))
	return errors.Join(err, refused(resolved, v1.CodeFailedPrecondition))
}

// replayLarge replays a job whose event is too large to be kept.
func (t *trial) replayLarge() error {
	defer t.only()()
	large := t.name + strings.Repeat(" ", 17<<10)
	sent, err := t.api.SubmitJob(t.ctx, jobService, []byte(large), client.JobOptions{})
	if err != nil {
		return err
	}
	name, err := keep(t.sim, jobService, large)
	err = errors.Join(err, t.sim.SetJobStatus(jobService, name, oscarsim.JobFailed), t.becomes(sent.ID, record.JobFailed))
	_, replayed := t.api.ReplayJob(t.ctx, sent.ID)
	return errors.Join(err, refused(replayed, v1.CodeFailedPrecondition))
}

// replayWithout deletes the service of a job that has failed: it cannot run again.
func (t *trial) replayWithout() error {
	_, err := t.api.CreateService(t.ctx, t.alone(t.name, "first"), client.CreateOptions{Wait: trialLate})
	home := t.player.w.Cluster(t.player.users.clusters[0]).Sim
	id, sent := t.send(t.name)
	name, kept := keep(home, t.name, t.name)
	err = errors.Join(err, sent, kept, home.SetJobStatus(t.name, name, oscarsim.JobFailed), t.becomes(id, record.JobFailed))
	_, deleted := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{Wait: trialLate})
	_, replayed := t.api.ReplayJob(t.ctx, id)
	return errors.Join(err, deleted, refused(replayed, v1.CodeFailedPrecondition))
}

package history

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// jobWayTrials are those of jobs that only one cluster can take, and whose OSCAR, lists or owner come between.
func jobWayTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a job that its syncer has claimed ends when it is cancelled":                   (*trial).cancelClaimed,
		"a job that its syncer has claimed waits while its cluster is paused":           (*trial).pauseClaimed,
		"a job that its syncer has claimed goes on without its member":                  (*trial).removeClaimed,
		"a job that its syncer has claimed goes back when its service stays wedged":     (*trial).wedgeClaimed,
		"a job that is assigned as its service wedges goes back":                        (*trial).wedgeUnclaimed,
		"a job that was begun and not sent goes back when its service stays wedged":     (*trial).wedgeBegun,
		"a job that cannot reach its OSCAR ends when it is cancelled":                   (*trial).cancelUnsent,
		"a job that cannot reach its OSCAR waits while its cluster is paused":           (*trial).pauseUnsent,
		"a job that cannot reach its OSCAR ends with its service":                       (*trial).deleteUnsent,
		"a job that cannot reach its OSCAR for long is tried again":                     (*trial).longUnsent,
		"a job that waits for its OSCAR and for its service is sent when both are well": (*trial).unsentWedged,
		"a job whose node does not answer is where it was":                              (*trial).nodeAway,
		"a job that OSCAR fails to make is sent again":                                  (*trial).makingFails,
		"a job that OSCAR never answers is uncertain until a person decides":            (*trial).resolveDoubt,
		"a job that OSCAR never answers, and that is cancelled, ends":                   (*trial).cancelDoubt,
		"a job that OSCAR never answers, and whose cluster is paused, ends":             (*trial).pauseDoubt,
		"a job that OSCAR never answers, and whose syncer dies, ends":                   (*trial).dieInDoubt,
		"a job is what the first list shows of it, however late":                        (*trial).seenFirst,
		"a job that somebody deletes has vanished":                                      (*trial).jobDeleted,
		"a job that is cancelled is deleted again, while its OSCAR does not do so":      (*trial).cancelAgain,
		"a job that is cancelled while its cluster is paused ends after that":           (*trial).cancelPaused,
		"a job that waits at its OSCAR ends when it is cancelled":                       (*trial).cancelSuspended,
		"a job of a service that is deleted with its jobs is cancelled":                 (*trial).deleteWithJobs,
		"a job that nobody takes is cancelled at once":                                  (*trial).cancelQueued,
		"a job of a cluster that is away can be given up":                               (*trial).giveUp,
		"a job that has failed runs again when it is replayed":                          (*trial).replayFailed,
		"a job that has failed does not run again without its service":                  (*trial).replayWithout,
		"a job that has failed does not run again without its event":                    (*trial).replayLarge,
		"a job that has succeeded is not replayed":                                      (*trial).replayEnded,
		"a job that somebody deletes before OSCAR answers for it is not sent again":     (*trial).deletedUnanswered,
		"jobs of a service that is taken over follow it, and rest as long":              (*trial).takenOver,
		"a job that no member may take any more is parked, and runs when one may":       (*trial).stranded,
	}
}

// only leaves the trial's cluster alone.
func (t *trial) only() (back func()) {
	var killed []*world.Cluster
	for i := range t.player.plan.Shape.Clusters {
		if c := t.player.w.Cluster(clusterID(i)); c != t.cluster {
			c.Kill()
			killed = append(killed, c)
		}
	}
	<-time.After(sessionOver)
	return func() {
		for _, c := range killed {
			c.Start()
		}
	}
}

// told is what the syncer of the trial's cluster reports of a job.
func (t *trial) told(id string) record.JobState {
	j := t.player.w.Job(id)
	if j == nil {
		return ""
	}
	kv, err := t.player.w.Store.Get(t.ctx, record.JobReportKey(t.cluster.ID, id, j.Attempt))
	if err != nil {
		return ""
	}
	r, err := store.Decode[record.JobReport](kv)
	if err != nil {
		return ""
	}
	return r.State
}

// whenTold waits until a job is reported as something.
func (t *trial) whenTold(id string, state record.JobState) error {
	pause := seenLate / 10
	for began := time.Now(); t.told(id) != state; <-time.After(pause) {
		if time.Since(began) > trialLate || t.state(id).Ended() {
			return fmt.Errorf("it is reported as %q, and not as %q; it is %+v", t.told(id), state, t.player.w.Job(id))
		}
		pause = min(pause*11/10, look)
	}
	return nil
}

// slowEtcd lets what etcd tells the syncer of the trial's cluster come late.
func (t *trial) slowEtcd() (mend func()) {
	return t.player.net.AddRule(world.HostEtcd, t.cluster.Host(), wire.Rule{Delay: seenLate})
}

// claimed submits a job that only the trial's cluster can take, and does something when it is claimed.
func (t *trial) claimed(do func(id string)) (id string, back func(), err error) {
	back = t.only()
	slow := t.slowEtcd()
	defer slow()
	if id, err = t.submit(); err != nil {
		return id, back, err
	}
	if err = t.whenTold(id, record.JobClaimed); err == nil {
		do(id)
	}
	return id, back, err
}

func (t *trial) cancelClaimed() error {
	var cancelled error
	id, back, err := t.claimed(func(id string) { _, cancelled = t.api.CancelJob(t.ctx, id) })
	defer back()
	return errors.Join(err, cancelled, t.becomes(id, record.JobCancelled), t.started(0))
}

func (t *trial) pauseClaimed() error {
	var paused error
	id, back, err := t.claimed(func(string) { paused = t.setCluster(record.ClusterPaused) })
	defer back()
	err = errors.Join(err, paused, t.becomes(id, record.JobQueued))
	<-time.After(trialSoon)
	return errors.Join(err, t.started(0), t.setCluster(record.ClusterActive), t.runs(id))
}

// removeClaimed removes the member when its syncer has claimed the job.
func (t *trial) removeClaimed() error {
	err := t.create(trialLate, nil)
	back := t.only()
	slow := t.slowEtcd()
	id, sent := t.send("the event of " + t.name)
	err = errors.Join(err, sent, t.whenTold(id, record.JobClaimed))
	_, removed := t.api.RemoveReplicas(t.ctx, t.name, t.added(), client.ChangeOptions{Async: true})
	slow()
	err = errors.Join(err, removed, t.withdrawn(id, record.JobServiceGone))
	back()
	return errors.Join(err, t.runs(id))
}

// wedgeUnclaimed has the service wedge before the syncer is told of the job.
func (t *trial) wedgeUnclaimed() error {
	return t.wedgedOnTheWay(3*seenLate, func(id string) error {
		err := t.reported(record.PhaseWedged)
		if told := t.told(id); told != "" {
			err = errors.Join(err, fmt.Errorf("the job is reported as %q before its service is wedged", told))
		}
		return err
	})
}

// wedgeClaimed has it wedge before the syncer is told that its claim was taken.
func (t *trial) wedgeClaimed() error {
	return t.wedgedOnTheWay(2*seenLate, func(id string) error { return t.whenTold(id, record.JobClaimed) })
}

// wedgeBegun has it wedge when the job is begun, and the syncer lose its session before it is told so: it has sent nothing.
func (t *trial) wedgeBegun() error {
	return t.wedgedOnTheWay(seenLate, func(id string) error {
		err := errors.Join(t.whenTold(id, record.JobSubmitting), awaitEach(wireDelay, "it is wedged", func() bool {
			o := t.observed()
			return o != nil && o.Phase == record.PhaseWedged
		}))
		mend := t.player.net.AddRule(world.HostEtcd, t.cluster.Host(), wire.Rule{Cut: true})
		<-time.After(sessionLost)
		mend()
		return err
	})
}

// wedgedOnTheWay submits a job so long after a change to a service that OSCAR has lost its way to: until the control
// planes see that the service is wedged they assign the job.
func (t *trial) wedgedOnTheWay(after time.Duration, assigned func(id string) error) error {
	err := t.create(trialLate, nil)
	back := t.only()
	slow := t.slowEtcd()
	slowPlanes := t.player.net.AddRule(world.HostEtcd, "control-plane-*", wire.Rule{Delay: seenLate})
	t.sim.HalfCreate(t.name)
	err = errors.Join(err, t.change("second"))
	<-time.After(after)
	id, sent := t.send("the event of " + t.name)
	err = errors.Join(err, sent, assigned(id), t.reported(record.PhaseWedged))
	slowPlanes()
	slow()
	err = errors.Join(err, t.withdrawn(id, record.JobWithdrawn), t.started(0), t.sim.PutPodTemplate(t.name), t.runs(id))
	back()
	return err
}

// setCluster sets the state of the trial's cluster.
func (t *trial) setCluster(state record.ClusterState) error {
	_, err := t.api.SetClusterState(t.ctx, t.cluster.ID, string(state))
	return err
}

// started demands how often the trial's job was started.
func (t *trial) started(times int) error {
	if starts := t.player.w.Starts("the event of " + t.name); starts != times {
		return fmt.Errorf("it was started %d times, not %d", starts, times)
	}
	return nil
}

// runs waits until a job has run, once.
func (t *trial) runs(id string) error {
	err := t.await("the job has run", func() bool { return t.state(id) == record.JobSucceeded || t.state(id) == record.JobFailed })
	return errors.Join(err, t.started(1))
}

// unsent submits a job whose OSCAR goes away as soon as it is claimed, and does something then.
func (t *trial) unsent(do func(id string) error) (id string, back func(), err error) {
	lives := func() {}
	id, others, err := t.claimed(func(string) {
		t.cluster.OscarDies()
		lives = t.cluster.OscarLives
	})
	if err == nil {
		err = t.whenTold(id, record.JobSubmitting)
	}
	if err == nil {
		<-time.After(trialSoon / 4)
		err = do(id)
	}
	return id, func() { lives(); others() }, err
}

func (t *trial) cancelUnsent() error {
	id, back, err := t.unsent(func(id string) error {
		_, err := t.api.CancelJob(t.ctx, id)
		return err
	})
	defer back()
	return errors.Join(err, t.becomes(id, record.JobCancelled), t.started(0))
}

func (t *trial) pauseUnsent() error {
	id, back, err := t.unsent(func(id string) error {
		return errors.Join(t.setCluster(record.ClusterPaused), t.becomes(id, record.JobQueued), t.setCluster(record.ClusterActive))
	})
	back()
	return errors.Join(err, t.runs(id))
}

func (t *trial) longUnsent() error {
	id, back, err := t.unsent(func(id string) error {
		return t.becomes(id, record.JobQueued)
	})
	back()
	return errors.Join(err, t.runs(id))
}

// deleteUnsent deletes the service of a job whose OSCAR does not answer.
func (t *trial) deleteUnsent() error {
	home := *t
	home.cluster = t.player.w.Cluster(t.player.users.clusters[0])
	if _, err := t.api.CreateService(t.ctx, t.alone(t.name, "first"), client.CreateOptions{Wait: trialLate}); err != nil {
		return err
	}
	slow := home.slowEtcd()
	defer slow()
	id, err := t.send("one")
	if err == nil {
		err = home.whenTold(id, record.JobClaimed)
	}
	home.cluster.OscarDies()
	defer home.cluster.OscarLives()
	if err == nil {
		err = home.whenTold(id, record.JobSubmitting)
	}
	_, deleted := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{})
	return errors.Join(err, deleted, t.becomes(id, record.JobCancelled))
}

// closedToJobs is an OSCAR that refuses the connections of jobs for a while.
type closedToJobs struct {
	syncer.OSCAR
	opened atomic.Bool
}

// Submit implements syncer.OSCAR.
func (o *closedToJobs) Submit(ctx context.Context, job manager.Submission, timeout time.Duration) error {
	if !o.opened.Load() {
		return &manager.APIError{Op: manager.OpSubmit, Service: job.Service, Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	}
	return o.OSCAR.Submit(ctx, job, timeout)
}

// unsentWedged has OSCAR take no jobs, and lose its way to the service when one has come.
func (t *trial) unsentWedged() error {
	closed := &closedToJobs{}
	t.cluster.Kill()
	t.cluster.Start(func(c *syncer.Config) { closed.OSCAR, c.OSCAR = c.OSCAR, closed })
	<-time.After(sessionOver)
	err := t.create(trialLate, nil)
	back := t.only()
	id, sent := t.send("the event of " + t.name)
	err = errors.Join(err, sent, t.whenTold(id, record.JobSubmitting))
	t.sim.HalfCreate(t.name)
	err = errors.Join(err, t.change("second"), t.reported(record.PhaseWedged))
	closed.opened.Store(true)
	<-time.After(seenLate)
	err = errors.Join(err, t.started(0), t.sim.PutPodTemplate(t.name), t.runs(id))
	t.cluster.Kill()
	t.cluster.Start()
	back()
	return err
}

// nodeAway has OSCAR say nothing of a Job that has run before.
func (t *trial) nodeAway() error {
	defer t.only()()
	id, name, err := t.standsAt()
	err = errors.Join(err, t.sim.SetJobStatus(jobService, name, oscarsim.JobUnknown))
	<-time.After(trialSoon)
	if state := t.state(id); state != record.JobRunning {
		err = errors.Join(err, fmt.Errorf("it is %s", state))
	}
	return errors.Join(err, t.sim.SetJobStatus(jobService, name, oscarsim.JobSucceeded), t.becomes(id, record.JobSucceeded), t.started(1))
}

// makingFails has OSCAR fail for a while: that a job was not made is certain when no list shows it.
func (t *trial) makingFails() error {
	defer t.only()()
	if err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpJob, Fault: oscarsim.Fault500}); err != nil {
		return err
	}
	id, err := t.submit()
	err = errors.Join(err, t.withdrawn(id, record.JobOscarRefused))
	t.sim.ClearFaults()
	return errors.Join(err, t.runs(id))
}

// doubt submits a job that OSCAR never answers: nobody can know whether it has made it.
func (t *trial) doubt() (id string, back func(), err error) {
	back = t.only()
	if err = t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpJob, Fault: oscarsim.FaultHang}); err != nil {
		return id, back, err
	}
	if id, err = t.submit(); err != nil {
		return id, back, err
	}
	return id, back, t.whenTold(id, record.JobSubmitting)
}

func (t *trial) resolveDoubt() error {
	var all error
	for _, as := range []record.JobState{record.JobVanished, record.JobSubmitted} {
		one := *t
		one.name = fmt.Sprintf("%s-%s", t.name, as)
		id, back, err := one.doubt()
		_, early := t.api.ResolveJob(t.ctx, id, string(as))
		err = errors.Join(err, refused(early, v1.CodeFailedPrecondition), one.whenTold(id, record.JobUncertain))
		slow := t.slowEtcd()
		_, resolved := t.api.ResolveJob(t.ctx, id, string(as))
		if as == record.JobSubmitted {
			_, again := t.api.ResolveJob(t.ctx, id, string(as))
			resolved = errors.Join(resolved, again)
		}
		slow()
		all = errors.Join(all, err, resolved, one.becomes(id, record.JobVanished), one.started(0))
		t.sim.ClearFaults()
		back()
	}
	return all
}

func (t *trial) cancelDoubt() error {
	id, back, err := t.doubt()
	defer back()
	<-time.After(trialSoon / 4)
	_, cancelled := t.api.CancelJob(t.ctx, id)
	return errors.Join(err, cancelled, t.becomes(id, record.JobVanished), t.started(0))
}

func (t *trial) pauseDoubt() error {
	id, back, err := t.doubt()
	defer back()
	<-time.After(trialSoon / 4)
	err = errors.Join(err, t.setCluster(record.ClusterPaused), t.becomes(id, record.JobVanished), t.started(0))
	return errors.Join(err, t.setCluster(record.ClusterActive))
}

// dieInDoubt ends the syncer while it waits for the answer.
func (t *trial) dieInDoubt() error {
	id, back, err := t.doubt()
	defer back()
	t.cluster.Kill()
	t.cluster.Start()
	return errors.Join(err, t.whenTold(id, record.JobUncertain), t.becomes(id, record.JobVanished), t.started(0))
}

// seenFirst hides the lists of Jobs until a Job is what it is to be seen as first.
func (t *trial) seenFirst() error {
	back := t.only()
	defer back()
	var all error
	for _, said := range []string{"", oscarsim.Fault500After, oscarsim.FaultLate} {
		for status, becomes := range map[string]record.JobState{
			oscarsim.JobRunning: record.JobRunning, oscarsim.JobSucceeded: record.JobSucceeded, oscarsim.JobFailed: record.JobFailed,
		} {
			one := *t
			one.name = fmt.Sprintf("%s-%s-%s", t.name, said, status)
			if err := one.seenAs(said, status, becomes); err != nil {
				all = errors.Join(all, fmt.Errorf("OSCAR says %q, and the first list %s: %w", said, status, err))
			}
			t.sim.ClearFaults()
		}
	}
	return all
}

// unlistedFor is longer than a syncer sends a job again that is not listed.
const unlistedFor = 20 * time.Minute

func (t *trial) seenAs(said, status string, becomes record.JobState) error {
	faults := []oscarsim.Fault{{Op: oscarsim.OpLogs, Fault: oscarsim.Fault500}}
	from := record.JobSubmitted
	switch said {
	case oscarsim.Fault500After:
		faults, from = append(faults, oscarsim.Fault{Op: oscarsim.OpJob, Fault: said, Count: 1}), record.JobSubmitting
	case oscarsim.FaultLate: // the lists show nothing at first
		faults, from = []oscarsim.Fault{{Op: oscarsim.OpJob, Fault: said, Delay: unlistedFor}}, record.JobUncertain
	}
	for _, f := range faults {
		if err := t.sim.SetFault(f); err != nil {
			return err
		}
	}
	id, err := t.submit()
	if err != nil {
		return err
	}
	if err := t.whenTold(id, from); err != nil {
		return err
	}
	if from == record.JobUncertain {
		if err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpLogs, Fault: oscarsim.Fault500}); err != nil {
			return err
		}
	}
	var name string
	if err := t.await("OSCAR has it", func() bool { name = t.atOSCAR(); return name != "" }); err != nil {
		return err
	}
	if err := t.sim.SetJobStatus(jobService, name, status); err != nil {
		return err
	}
	t.sim.ClearFaults()
	if err := t.becomes(id, becomes); err != nil || becomes.Ended() {
		return err
	}
	return errors.Join(t.sim.SetJobStatus(jobService, name, oscarsim.JobSucceeded), t.becomes(id, record.JobSucceeded))
}

// atOSCAR is the name of the Job of the trial's event; empty when there is none.
func (t *trial) atOSCAR() string { return jobOf(t.sim, jobService, "the event of "+t.name) }

// jobOf is the name of the Job of an event; empty when there is none.
func jobOf(sim *oscarsim.Sim, service, event string) string {
	for _, j := range sim.Jobs(service) {
		if j.Event == event {
			return j.Name
		}
	}
	return ""
}

// replayEnded replays a job that has succeeded.
func (t *trial) replayEnded() error {
	defer t.only()()
	id, name, err := t.waitsAt()
	err = errors.Join(err, t.sim.SetJobStatus(jobService, name, oscarsim.JobSucceeded), t.becomes(id, record.JobSucceeded))
	_, replayed := t.api.ReplayJob(t.ctx, id)
	return errors.Join(err, refused(replayed, v1.CodeFailedPrecondition))
}

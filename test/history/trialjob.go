package history

import (
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// submit submits an event, and gives the id of its job.
func (t *trial) submit() (string, error) {
	sent, err := t.api.SubmitJob(t.ctx, jobService, []byte("the event of "+t.name), client.JobOptions{IdempotencyKey: t.name})
	if err != nil {
		return "", err
	}
	return sent.ID, nil
}

func (t *trial) state(id string) record.JobState {
	if j := t.player.w.Job(id); j != nil {
		return j.State
	}
	return ""
}

func (t *trial) cancel() error {
	id, err := t.submit()
	if err != nil {
		return err
	}
	if err := t.await("the job runs", func() bool { return t.state(id) == record.JobRunning || t.state(id).Ended() }); err != nil {
		return err
	}
	_, err = t.api.CancelJob(t.ctx, id)
	if t.state(id).Ended() {
		return nil // perhaps before it was cancelled
	}
	if err != nil {
		return err
	}
	began := time.Now()
	if err := t.await("the job ends", func() bool { return t.state(id).Ended() }); err != nil {
		return err
	}
	if now, took := t.state(id), time.Since(began); now != record.JobCancelled && took > trialSoon/4 {
		return fmt.Errorf("it is %s, %v after it was cancelled", now, took)
	}
	return nil
}

func (t *trial) park() error {
	id, err := t.parked()
	if err != nil {
		return err
	}
	return t.replay(id)
}

// parked has every OSCAR refuse a job until it is parked.
func (t *trial) parked() (id string, err error) {
	if err := t.refuseJobs(oscarsim.FaultDeny); err != nil {
		return "", err
	}
	if id, err = t.submit(); err != nil {
		return "", err
	}
	if err := t.await("the job is parked", func() bool { return t.state(id) == record.JobParked }); err != nil {
		return "", fmt.Errorf("%w; it is %s", err, t.state(id))
	}
	return id, t.refuseJobs("")
}

// replay runs a job that is parked.
func (t *trial) replay(id string) error {
	if _, err := t.api.ReplayJob(t.ctx, id); err != nil {
		return err
	}
	return t.await("the job has run", func() bool { return t.state(id) == record.JobSucceeded || t.state(id) == record.JobFailed })
}

// refuseJobs sets or ends a fault of the submissions of every OSCAR.
func (t *trial) refuseJobs(fault string) error {
	count := 0
	if fault == oscarsim.Fault500After {
		count = 1
	}
	for i := range t.player.plan.Shape.All() {
		if err := t.player.w.Cluster(clusterID(i)).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpJob, Fault: fault, Count: count}); err != nil {
			return err
		}
	}
	return nil
}

// pauses has every OSCAR refuse jobs, beside a control plane whose clock is ahead, and then behind: between
// two attempts there is a pause.
func (t *trial) pauses() error {
	var all error
	for _, by := range []time.Duration{t.Ahead, -t.Ahead} {
		mend := t.player.wrongClock(Fault{On: hostControlPlane(t.Plane), Amount: by})
		<-time.After(sessionOver)
		one := *t
		one.name = fmt.Sprint(t.name, by)
		all = errors.Join(all, one.pausesOnce())
		mend()
	}
	return all
}

func (t *trial) pausesOnce() error {
	began := time.Now()
	id, err := t.parked()
	if err != nil {
		return err
	}
	if took := time.Since(began); took < leastParked {
		err = fmt.Errorf("it was parked after %v: it was sent again without a pause", took)
	}
	return errors.Join(err, t.replay(id))
}

// leastParked is less than the pauses of a job take together that is refused until it is parked.
const leastParked = 7400 * time.Millisecond

// lateJobReport: what a syncer reports after it has asked OSCAR for a job reaches etcd when its session is
// over.
func (t *trial) lateJobReport() error {
	err := t.late(oscarsim.OpJob, false, t.submitSome)
	<-time.After(trialSoon)
	return errors.Join(err, t.startedOnce())
}

// submitSome submits more events than the other clusters take at once.
func (t *trial) submitSome() error {
	for i := range 2 * t.player.plan.Shape.All() {
		t.player.users.job(t.ctx, Job{Op: jobSubmit, Event: t.event(i)})
	}
	return nil
}

// event is the number of an event that only this trial has.
func (t *trial) event(i int) int { return 100*sceneEvents + 100*t.number + i }

// halfDone has every OSCAR make a job and answer with an error, once.
func (t *trial) halfDone() error {
	if err := t.refuseJobs(oscarsim.Fault500After); err != nil {
		return err
	}
	t.player.users.job(t.ctx, Job{Op: jobSubmit, Event: t.event(0)})
	<-time.After(trialSoon)
	if starts := t.player.w.Starts(event(t.event(0))); starts != 1 {
		return fmt.Errorf("it was started %d times", starts)
	}
	return nil
}

// lateLists lets what OSCARs answer come late, each answer by another time: a list that is older than a job
// does not show it.
func (t *trial) lateLists() error {
	mend := t.player.net.AddRule(world.HostOSCAR("*"), world.HostSyncer("*"), wire.Rule{Jitter: 5 * time.Second})
	defer mend()
	for i := range lateJobs {
		t.player.users.job(t.ctx, Job{Op: jobSubmit, Event: t.event(i)})
		<-time.After(2 * time.Second)
	}
	<-time.After(trialLate)
	var all error
	for i := range lateJobs {
		if state := t.state(t.player.users.jobs[t.event(i)]); state == record.JobVanished {
			all = errors.Join(all, fmt.Errorf("event %d is %s", t.event(i), state))
		}
	}
	return all
}

// lateJobs are the jobs whose lists come late.
const lateJobs = 60

// comesBack lets a syncer come back at the moment at which control planes, which see late what happens, take
// its jobs back: each is started once.
func (t *trial) comesBack() error {
	t.cluster.Kill()
	if err := t.submitSome(); err != nil {
		t.cluster.Start()
		return err
	}
	slow := t.player.net.AddRule(world.HostEtcd, "control-plane-*", wire.Rule{Delay: seenLate})
	for began := time.Now(); t.session() && time.Since(began) < sessionOver; {
		<-time.After(wireDelay)
	}
	<-time.After(jobsLost + seenLate*4/5)
	t.cluster.Start()
	<-time.After(jobsLost)
	slow()
	<-time.After(trialSoon)
	return t.startedOnce()
}

// startedOnce demands that each of the events that were submitted was started once.
func (t *trial) startedOnce() error {
	var all error
	for i := range 2 * t.player.plan.Shape.All() {
		if starts := t.player.w.Starts(event(t.event(i))); starts != 1 {
			all = errors.Join(all, fmt.Errorf("event %d was started %d times", t.event(i), starts))
		}
	}
	return all
}

const (
	// jobsLost is how long a cluster has had no session when its jobs are taken back.
	jobsLost = 10 * time.Second
	// seenLate is how late control planes see what happens in etcd; more, and they get no answer in time.
	seenLate = 2500 * time.Millisecond
)

// session says whether the syncer of the trial's cluster has one.
func (t *trial) session() bool {
	_, err := t.player.w.Store.Get(t.ctx, record.SessionKey(t.cluster.ID))
	return !errors.Is(err, store.ErrNotFound)
}

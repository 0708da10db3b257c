package history

import (
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
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

// park has every OSCAR refuse jobs.
func (t *trial) park() error {
	if err := t.refuseJobs(oscarsim.FaultDeny); err != nil {
		return err
	}
	id, err := t.submit()
	if err != nil {
		return err
	}
	if err := t.await("the job is parked", func() bool { return t.state(id) == record.JobParked }); err != nil {
		return fmt.Errorf("%w; it is %s", err, t.state(id))
	}
	if err := t.refuseJobs(""); err != nil {
		return err
	}
	if _, err := t.api.ReplayJob(t.ctx, id); err != nil {
		return err
	}
	return t.await("the job has run", func() bool { return t.state(id) == record.JobSucceeded || t.state(id) == record.JobFailed })
}

// refuseJobs sets or ends a fault of the submissions of every OSCAR.
func (t *trial) refuseJobs(fault string) error {
	for i := range t.player.plan.Shape.All() {
		if err := t.player.w.Cluster(clusterID(i)).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpJob, Fault: fault}); err != nil {
			return err
		}
	}
	return nil
}

package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

// readmitTrials are those of a cluster that writes too much: it is revoked, and what it has reported is forgotten when it
// is readmitted.
func readmitTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a job on a cluster that is readmitted is started once":                    (*trial).readmittedJob,
		"a job whose Job is gone when its cluster is readmitted has vanished":      (*trial).readmittedDeleted,
		"a job that is cancelled before its readmitted cluster tells of it ends":   (*trial).readmittedCancelled,
		"a Job that OSCAR makes late for a job cancelled at a readmission goes":    (*trial).readmittedLate,
		"a job whose member is removed from a readmitted cluster is started once":  (*trial).readmittedRemoved,
		"a job whose Job and member go from a readmitted cluster vanishes":         (*trial).readmittedGone,
		"a service that vanishes from a cluster that is revoked is made again":     (*trial).readmittedVanished,
		"a change that was only reported stays when its cluster is readmitted":     (*trial).readmittedDrift,
		"a loss that is only reported stays when its cluster is readmitted":        (*trial).readmittedLoss,
		"buckets that are to go with a service go after a readmission":             (*trial).readmittedBuckets,
		"a lost bucket that is only reported stays when its cluster is readmitted": (*trial).readmittedBucket,
	}
}

// limitedRate is how often a cluster may write in a second, for long, in a world with limits.
const limitedRate = 2

// limits lets control planes revoke a cluster that writes too much.
func (s Shape) limits(c *controlplane.Config) {
	if s.Limited {
		c.Limits, c.Users = access.Limits{Rate: limitedRate}, noUsers{}
	}
}

// noUsers are those of an etcd that knows none.
type noUsers struct{}

// KeepUsers implements clusters.Users.
func (noUsers) KeepUsers(context.Context, func(context.Context) (access.Wanted, error)) error {
	return nil
}

// revoked has the trial's cluster write what it has written already, until it is revoked. Then its syncer has no rights
// in etcd any more, and is away.
func (t *trial) revoked() error {
	defer t.cluster.Kill()
	key := record.ObservedClusterKey(t.cluster.ID)
	for range 1000 * limitedRate {
		if _, err := t.player.w.Store.Update(t.ctx, store.Update{Keys: []string{key}, Build: func(v store.View, tx *store.Txn) error {
			kv, _ := v.KV(key)
			told, err := store.Decode[record.ObservedCluster](kv)
			if err != nil {
				return err
			}
			tx.Expect(key)
			tx.Put(key, told)
			tx.Touch(key)
			return nil
		}}); err != nil {
			return err
		}
		if reg, err := t.api.Cluster(t.ctx, t.cluster.ID); err == nil && reg.Revoked != nil {
			return nil
		}
	}
	return errors.New("it is not revoked")
}

// readmitted ends the revocation, does something, and lets the syncer come back.
func (t *trial) readmitted(before func() error) error {
	var refused error
	err := t.await("it is readmitted", func() bool {
		_, refused = t.api.ReadmitCluster(t.ctx, t.cluster.ID)
		return refused == nil
	})
	err = errors.Join(err, refused, before())
	t.cluster.Start()
	return err
}

func nothing() error { return nil }

// readmittedJob revokes the cluster while a Job waits there that no list has shown running.
func (t *trial) readmittedJob() error {
	defer t.only()()
	id, name, err := t.waitsAt()
	err = errors.Join(err, t.revoked())
	<-time.After(trialSoon)
	err = errors.Join(err, t.readmitted(nothing))
	<-time.After(trialSoon)
	if state := t.state(id); state != record.JobAssigned {
		err = errors.Join(err, fmt.Errorf("it is %s, and its Job waits", state))
	}
	return errors.Join(err, t.sim.SetJobStatus(jobService, name, oscarsim.JobSucceeded), t.becomes(id, record.JobSucceeded), t.started(1))
}

// readmittedDeleted has the Job end, and go by its TTL, while the cluster is revoked: nothing tells any more that it has
// run. It waited when it was told of last, or ran.
func (t *trial) readmittedDeleted() error {
	defer t.only()()
	waits, runs := t.named("-waits"), t.named("-runs")
	return errors.Join(waits.deletedAway(waits.waitsAt()), runs.deletedAway(runs.standsAt()))
}

func (t *trial) deletedAway(id, name string, err error) error {
	err = errors.Join(err, t.revoked())
	<-time.After(trialSoon)
	return errors.Join(err, t.sim.DeleteJob(jobService, name), t.readmitted(nothing), t.becomes(id, record.JobVanished), t.started(1))
}

// waitsAt submits a job, whose Job waits at the OSCAR of the trial's cluster.
func (t *trial) waitsAt() (id, name string, err error) {
	event := "the event of " + t.name
	t.sim.HoldJob(event)
	if id, err = t.submit(); err != nil {
		return "", "", err
	}
	name, err = t.waits(id, jobService, event)
	return id, name, err
}

// readmittedCancelled cancels the job before the syncer is back. Its Job waits, or somebody has deleted it.
func (t *trial) readmittedCancelled() error {
	defer t.only()()
	return errors.Join(t.named("-waits").cancelledAway(false), t.named("-deleted").cancelledAway(true))
}

func (t *trial) cancelledAway(deleted bool) error {
	id, name, err := t.waitsAt()
	err = errors.Join(err, t.revoked())
	<-time.After(sessionOver)
	if deleted {
		err = errors.Join(err, t.sim.DeleteJob(jobService, name))
	}
	err = errors.Join(err, t.readmitted(func() error {
		_, err := t.api.CancelJob(t.ctx, id)
		return err
	}), t.becomes(id, record.JobCancelled), t.started(1))
	if t.atOSCAR() != "" {
		err = errors.Join(err, errors.New("its Job waits at its OSCAR, and may run"))
	}
	return err
}

// readmittedLate cancels the job before the syncer is back. Its OSCAR has not answered, and makes the Job later.
func (t *trial) readmittedLate() error {
	defer t.only()()
	const late = 4 * time.Minute
	err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpJob, Fault: oscarsim.FaultLate, Delay: late})
	id, sent := t.submit()
	err = errors.Join(err, sent, t.whenTold(id, record.JobSubmitting))
	t.cluster.Kill() // before it asks once more
	err = errors.Join(err, t.revoked())
	t.sim.ClearFaults()
	err = errors.Join(err, t.readmitted(func() error {
		_, err := t.api.CancelJob(t.ctx, id)
		return err
	}))
	if t.atOSCAR() != "" {
		err = errors.Join(err, errors.New("its Job is made before the syncer is back"))
	}
	err = errors.Join(err, t.becomes(id, record.JobCancelled))
	<-time.After(late)
	if t.atOSCAR() != "" {
		err = errors.Join(err, errors.New("its Job runs at its OSCAR, and nobody knows it"))
	}
	return errors.Join(err, t.started(1))
}

// waitsAtMember is waitsAt of a service of the trial's own, whose other members are away until back is called.
func (t *trial) waitsAtMember() (id, name string, back func(), err error) {
	err = t.create(trialLate, nil)
	back = t.only()
	event := "the event of " + t.name
	t.sim.HoldJob(event)
	id, sent := t.send(event)
	name, waits := t.waits(id, t.name, event)
	return id, name, back, errors.Join(err, sent, waits)
}

// leave removes the member of the trial's cluster.
func (t *trial) leave() error {
	_, err := t.api.RemoveReplicas(t.ctx, t.name, t.added(), client.ChangeOptions{Async: true})
	return err
}

// readmittedRemoved removes the member before its syncer is back.
func (t *trial) readmittedRemoved() error {
	id, name, back, err := t.waitsAtMember()
	err = errors.Join(err, t.revoked())
	<-time.After(sessionOver)
	back()
	err = errors.Join(err, t.readmitted(t.leave))
	<-time.After(trialSoon)
	err = errors.Join(err, t.started(1), t.sim.SetJobStatus(t.name, name, oscarsim.JobSucceeded), t.becomes(id, record.JobSucceeded))
	return errors.Join(err, t.await("it is gone where it was removed", func() bool { return t.gone(t.sim) }))
}

// readmittedGone has the Job end, and go, while the cluster is revoked. Then the member is removed, and the others are
// there.
func (t *trial) readmittedGone() error {
	id, name, back, err := t.waitsAtMember()
	err = errors.Join(err, t.revoked())
	<-time.After(sessionOver)
	back()
	err = errors.Join(err, t.sim.SetJobStatus(t.name, name, oscarsim.JobSucceeded), t.sim.DeleteJob(t.name, name))
	return errors.Join(err, t.readmitted(t.leave), t.becomes(id, record.JobVanished), t.started(1))
}

func (t *trial) readmittedVanished() error {
	err := errors.Join(t.create(trialLate, nil), t.revoked())
	t.sim.RemoveService(t.name)
	<-time.After(trialLate)
	if t.stands(t.sim) {
		err = errors.Join(err, errors.New("it was made while its cluster was revoked"))
	}
	return errors.Join(err, t.readmitted(nothing), t.await("it is made again", func() bool { return t.stands(t.sim) }), t.phase(record.PhaseReady))
}

// readmittedDrift changes a service that is not repaired, and whose report is forgotten then.
func (t *trial) readmittedDrift() error {
	err := errors.Join(t.report(), t.revoked(), t.readmitted(nothing))
	<-time.After(trialLate)
	if t.script(t.sim) == t.service("first", nil).Script {
		err = errors.Join(err, errors.New("it was repaired"))
	}
	return errors.Join(err, t.phase(record.PhaseDrifted))
}

// readmittedLoss removes a service that is not repaired, and whose report is forgotten then.
func (t *trial) readmittedLoss() error {
	err := errors.Join(t.create(trialLate, func(f *oscar.Federation) { f.Drift = oscar.DriftReport }), t.revoked())
	t.sim.RemoveService(t.name)
	err = errors.Join(err, t.readmitted(nothing))
	<-time.After(trialLate)
	if t.stands(t.sim) {
		err = errors.Join(err, errors.New("it was made again"))
	}
	return errors.Join(err, t.phase(record.PhaseDrifted))
}

// readmittedBucket deletes the bucket of a service that is not repaired, and whose report is forgotten then.
func (t *trial) readmittedBucket() error {
	err := errors.Join(t.create(trialLate, func(f *oscar.Federation) { f.Drift = oscar.DriftReport }), t.revoked())
	t.sim.RemoveBucket(t.name)
	err = errors.Join(err, t.readmitted(nothing))
	<-time.After(trialLate)
	if n := t.changes(); t.hasBucket() || n > 0 {
		err = errors.Join(err, fmt.Errorf("it was changed %d times", n))
	}
	return errors.Join(err, t.phase(record.PhaseDrifted))
}

// readmittedBuckets deletes a service with its data, whose OSCAR deletes no bucket until its cluster is readmitted.
func (t *trial) readmittedBuckets() error {
	t.cluster = t.player.w.Cluster(t.player.users.clusters[0])
	t.sim = t.cluster.Sim
	err := errors.Join(t.create(trialLate, nil), t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpBucketDelete, Fault: oscarsim.Fault500}))
	ctx, cancel := context.WithTimeout(t.ctx, trialSoon)
	defer cancel()
	_, _ = t.api.DeleteService(ctx, t.name, client.DeleteOptions{Data: "delete", Jobs: "cancel"}) // it waits for the bucket
	err = errors.Join(err, t.await("the service is gone", func() bool { return t.gone(t.sim) }))
	if !t.hasBucket() {
		err = errors.Join(err, errors.New("its bucket is gone before the readmission"))
	}
	err = errors.Join(err, t.revoked())
	t.sim.ClearFaults()
	return errors.Join(err, t.readmitted(nothing), t.await("its bucket is gone", func() bool { return !t.hasBucket() }))
}

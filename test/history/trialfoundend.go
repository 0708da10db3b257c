package history

import (
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/world"
)

// Trials of jobs that a restore takes back to before their cluster had them.

// foundCancelled cancels jobs that were queued at the backup, before their cluster tells that it has them: one waits there,
// and one runs.
func (t *trial) foundCancelled() error {
	defer t.decided()
	defer t.only()()
	t.cluster.Kill()
	<-time.After(sessionOver)
	waits, runs := t.named("-waits"), t.named("-runs")
	t.sim.HoldJob("the event of " + waits.name)
	waiting, sent := waits.submit()
	running, sentToo := runs.submit()
	err := errors.Join(sent, sentToo, t.goesBack(restoreLive, func() error {
		t.cluster.Start()
		_, waits := waits.waits(waiting, jobService, "the event of "+waits.name)
		_, runs := keep(t.sim, jobService, "the event of "+runs.name)
		err := errors.Join(waits, runs, t.becomes(running, record.JobRunning))
		t.cluster.Kill()
		return err
	}))
	<-time.After(sessionOver)
	for _, id := range []string{waiting, running} {
		_, cancelled := t.api.CancelJob(t.ctx, id)
		err = errors.Join(err, cancelled, t.becomes(id, record.JobCancelled))
	}
	t.cluster.Start()
	for id, one := range map[string]*trial{waiting: waits, running: runs} {
		err = errors.Join(err, t.await("its Job is deleted", func() bool { return one.atOSCAR() == "" }), t.becomes(id, record.JobCancelled), one.started(1))
	}
	return err
}

// foundUnknown makes the backup when a job is claimed, which runs then, and whose Job goes by its TTL. Control planes do not
// know of the restore for a while: the syncer alone does.
func (t *trial) foundUnknown() error {
	defer t.decided()
	defer t.only()()
	slow := t.slowEtcd()
	id, err := t.submit()
	err = errors.Join(err, t.whenTold(id, record.JobClaimed))
	var mend func()
	err = errors.Join(err, t.goesBack(restoreLive, func() error {
		slow()
		name, err := keep(t.sim, jobService, "the event of "+t.name)
		err = errors.Join(err, t.sim.SetJobStatus(jobService, name, oscarsim.JobSucceeded), t.becomes(id, record.JobSucceeded), t.sim.DeleteJob(jobService, name))
		mend = t.player.net.Cut("control-plane-*", world.HostEtcd)
		return err
	}))
	if err != nil {
		return err
	}
	<-time.After(trialQuiet)
	if told := t.told(id); told != record.JobClaimed {
		err = fmt.Errorf("it is reported as %q before anybody knows of the restore", told)
	}
	err = errors.Join(err, t.started(1))
	mend()
	return errors.Join(err, t.withdrawn(id, record.JobStoreRestored))
}
